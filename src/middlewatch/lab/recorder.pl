#!/usr/bin/perl
# Stands in for one Slurm command: runs the real one untouched and writes down that it did.
# Perl because every Debian has it and it starts in a few milliseconds. The name that this file
# was called by is the command. Configured by the lines that the lab puts in place of the marks.
use Time::HiRes qw(time sleep);
my $folder = '@FOLDER@';
my @prefix = (@PREFIX@);
my $death_signal = @PRCTL@;    # number of the system call prctl, 0 where unknown

(my $name = $0) =~ s{.*/}{};
my $real;
for my $dir (qw(/usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin)) {
    if (-x "$dir/$name") { $real = "$dir/$name"; last }
}
if (!defined $real) { print STDERR "$name: not installed\n"; exit 127 }
$ENV{SLURM_CONF} = "$folder/etc/slurm.conf" if !defined $ENV{SLURM_CONF};

sub quoted {
    my $text = shift;
    my $copy = $text;
    my $utf8 = utf8::decode($copy);
    $text =~ s/(["\\])/\\$1/g;
    $text =~ s/([\x00-\x1f\x7f])/sprintf '\\u%04x', ord $1/ge;
    $text =~ s/([\x80-\xff])/sprintf '\\u%04x', ord $1/ge if !$utf8;
    return "\"$text\"";
}

sub rfc3339 {
    my $at = shift;
    my ($sec, $min, $hour, $day, $month, $year) = gmtime int $at;
    return sprintf '%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', $year + 1900, $month + 1, $day, $hour,
        $min, $sec, int(($at - int $at) * 1000);
}

sub append {
    my ($file, $line) = @_;
    open(my $log, '>>', "$folder/$file") or return;
    flock $log, 2;
    syswrite $log, "$line\n";
    close $log;
}

# One line of `faults`: how many times more, the beginning of the command, what to do, with what.
sub fault {
    my $called = shift;
    my $file = "$folder/faults";
    return () if !-s $file;
    open(my $handle, '+<', $file) or return ();
    flock $handle, 2;
    my @lines = <$handle>;
    my @found;
    for my $line (@lines) {
        chomp(my $copy = $line);
        my ($left, $match, $action, $with) = split /\t/, $copy, 4;
        next if @found || $left < 1 || index($called, $match) != 0;
        @found = ($action, $with);
        $line = join("\t", $left - 1, $match, $action, $with) . "\n";
    }
    if (@found) { seek $handle, 0, 0; truncate $handle, 0; print $handle @lines }
    close $handle;
    return @found;
}

sub kill_all {
    open(my $list, '<', shift) or return;
    my @all = split ' ', join ' ', <$list>;
    # A negative number is a process group. One's own comes last.
    kill 'KILL', $_ for sort { ($a == -getpgrp) <=> ($b == -getpgrp) } @all;
}

# Say that we are there, and wait until somebody says how to go on. In the end: go on.
sub meet {
    my $place = shift;
    open(my $here, '>', "$place.here") or return '';
    print $here "$$\n";
    close $here;
    for (1 .. 18_000) {
        if (open(my $go, '<', "$place.go")) { my $word = <$go> // ''; chomp $word; return $word }
        sleep 0.01;
    }
    return '';
}

# What slurmctld shows of the job that the command names, where somebody wants to know.
sub witness {
    my ($id, $when, @words) = @_;
    return if !-e "$folder/witness";
    my ($job) = map { /^(?:jobid=)?([0-9][0-9_+]*)$/i ? $1 : () } @words;
    return if !defined $job;
    (my $scontrol = $real) =~ s{[^/]*$}{scontrol};
    local $ENV{SLURM_TIME_FORMAT} = '%s';
    my $shown = '';
    if (open(my $answer, '-|', 'timeout', '-k', '1', '2', @prefix, $scontrol, '-o', 'show', 'job', $job)) {
        local $/;
        $shown = <$answer> // '';
        close $answer;
    }
    my $now = sprintf '%.3f', time;
    append('witness.jsonl', "{\"id\": \"$id\", \"when\": \"$when\", \"at\": $now, \"job\": " . quoted($shown) . '}');
}

my $begun = time;
my $id = "$$-" . int($begun * 1000);
my $argv = join ', ', map { quoted($_) } $name, @ARGV;
my $head = "{\"id\": \"$id\", \"at\": \"" . rfc3339($begun) . "\", \"argv\": [$argv], \"uid\": $<";
append('started.jsonl', "$head}");

my ($action, $with) = fault(join ' ', $name, @ARGV);
$action = '' if !defined $action;
sleep $with if $action eq 'delay-before';
kill_all($with) if $action eq 'kill-before' || $action eq 'kill-instead';
my $word = $action eq 'meet-before' ? meet($with) : '';
# In words, so that it is not taken for slurmctld's own refusal.
if ($word eq 'stop') { $action = 'kill-instead'; $with = 'interrupted' }

my $changes = $name eq 'scancel' || ($name eq 'scontrol' && @ARGV && $ARGV[0] !~ /^(?:-.*|show)$/);
witness($id, 'before', @ARGV) if $changes;
my $code;
if ($action eq 'refuse' || $action eq 'kill-instead') {
    print STDERR "$name: error: $with\n";
    $code = 1;
} else {
    my $child = fork;
    if (!defined $child) { print STDERR "$name: cannot fork: $!\n"; exit 126 }
    if (!$child) {
        # Whoever kills the stand-in means the command.
        syscall($death_signal, 1, 9) if $death_signal;
        if ($action eq 'drop-reply') {
            open STDOUT, '>', '/dev/null';
            open STDERR, '>', '/dev/null';
        }
        my @all = (@prefix, $real, @ARGV);
        exec {$all[0]} @all or exit 126;
    }
    for my $signal (qw(TERM INT HUP QUIT USR1 USR2 CONT)) {
        $SIG{$signal} = sub { kill $signal, $child };
    }
    1 while waitpid($child, 0) != $child && $!{EINTR};
    $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
    witness($id, 'after', @ARGV) if $changes;
    if ($action eq 'meet-after' && meet($with) eq 'lose') {
        print STDERR "$name: error: Unable to contact slurm controller (connect failure)\n";
        $code = 1;
    }
    if ($action eq 'drop-reply') { print STDERR "$name: error: $with\n"; $code = 1 }
    sleep $with if $action eq 'delay-after';
}
append('commands.jsonl', sprintf '%s, "exit_code": %d, "duration_s": %.4f}', $head, $code, time - $begun);
kill_all($with) if $action eq 'kill-after';
exit $code;
