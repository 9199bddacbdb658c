package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestCommandsOfDrillPagesAreUnderstood holds every command on the pages of drills
// against the program: its verb is there, and takes its flags and arguments.
func TestCommandsOfDrillPagesAreUnderstood(t *testing.T) {
	command := regexp.MustCompile("(?m)^(breakwater .*)$|`(breakwater [^`]+)`")
	n := 0
	for _, page := range []string{"experiments", "faults"} {
		text, err := os.ReadFile("../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range command.FindAllStringSubmatch(string(text), -1) {
			line, _, _ := strings.Cut(m[1]+m[2], "#")
			line, _, _ = strings.Cut(line, ">")
			words := strings.Fields(line)[1:]
			root := newRoot(streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
			cmd, rest, err := root.Find(words)
			if err != nil || cmd == root || cmd.HasSubCommands() {
				t.Errorf("%s.md: %q is no verb (%v)", page, line, err)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s.md: %q: %v", page, line, err)
				continue
			}
			if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
				t.Errorf("%s.md: %q: %v", page, line, err)
			}
			n++
		}
	}
	if n < 15 {
		t.Errorf("only %d commands were found", n)
	}
}
