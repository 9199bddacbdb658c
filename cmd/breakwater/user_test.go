package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"breakwater/internal/pgtest"
)

func TestUserVerbs(t *testing.T) {
	if plain(t) {
		return
	}
	db := []string{"--db", pgtest.Empty(t)}
	user := func(stdin, line string) ran {
		return verb(t, stdin, append(append([]string{"user"}, strings.Fields(line)...), db...)...)
	}
	user("", "ls").want(t, exitUnknown, "the database is not migrated")
	first := user("", "create boss --role admin")
	first.want(t, exitOK)
	if len(strings.TrimSpace(first.out)) != 23 {
		t.Errorf("stdout %q is no first password", first.out)
	}
	user("", "create boss").want(t, exitNo, "taken")
	user("", "create Boss").want(t, exitUsage, "lower case")
	user("", "create x --role gateway").want(t, exitUsage, "must be viewer, operator, approver or admin")
	user("", "create x --service <b>").want(t, exitUsage, "must be the name of a service")
	user("", "disable boss").want(t, exitNo, "last admin")
	user("", "set boss --role viewer").want(t, exitNo, "last admin")
	user("", "create ann --role operator --service order --service points").want(t, exitOK)
	user("", "set ann --role approver").want(t, exitOK)
	user("", "set ann").want(t, exitUsage, "role")
	user("", "disable ann").want(t, exitOK)
	if r := user("", "ls"); !strings.Contains(r.out, "ann") || !strings.Contains(r.out, "disabled") || !strings.Contains(r.out, "approver") {
		t.Errorf("user ls says %q, %q", r.out, r.err)
	}
	user("", "enable ann").want(t, exitOK)
	user("", "enable nobody").want(t, exitUnknown, "no such user")
	if r := user("", "reset ann"); r.code != exitOK || r.out == first.out || len(strings.TrimSpace(r.out)) != 23 {
		t.Errorf("reset: %+v", r)
	}
	if r := user("four words are enough\n", "reset ann --password-stdin"); r.code != exitOK || r.out != "" {
		t.Errorf("reset to a given one: %+v", r)
	}
	user("short\n", "reset ann --password-stdin").want(t, exitUsage, "at least 12")
	user("", "reset ann --password-stdin").want(t, exitUsage, "must begin with the password")
	verb(t, "", append([]string{"audit", "verify"}, db...)...).want(t, exitOK)
	if r := verb(t, "", append([]string{"audit", "ls", "--action", "user."}, db...)...); strings.Count(r.out, "local") < 8 {
		t.Errorf("the audit does not say who: %s", r.out)
	}
}

// Every command of docs/people.md is one: its verb and flags are parsed.
func TestPeopleDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/people.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, block := range regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			words := strings.Fields(line)
			if len(words) == 0 || words[0] != "breakwater" {
				t.Errorf("%q is no command", line)
				continue
			}
			cmd, rest, err := newRoot(streams{}).Find(words[1:])
			if err != nil || cmd.ParseFlags(rest) != nil || cmd.Args != nil && cmd.ValidateArgs(cmd.Flags().Args()) != nil {
				t.Errorf("%q does not parse: %v", line, err)
			}
			found++
		}
	}
	if found < 7 {
		t.Errorf("only %d commands", found)
	}
	for _, says := range []string{"64 MiB, 3 passes, 4 lanes", "12 to 256 characters", "12 hours", "7 days", "5 for a name, then one each 30 s", "20 for an address"} {
		if !strings.Contains(string(text), says) {
			t.Errorf("the page does not say %q", says)
		}
	}
}
