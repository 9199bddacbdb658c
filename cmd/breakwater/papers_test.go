package main

import (
	"strconv"
	"testing"

	"breakwater/internal/conf"
)

// What was made of documents is kept until a file changes, and of the last few sets.
func TestDocumentsAreParsedOnce(t *testing.T) {
	var b byFiles[string]
	times := map[string]int{}
	ask := func(name, text string) {
		t.Helper()
		got := b.of([]conf.File{{Name: name, Data: []byte(text)}}, func(files []conf.File) string {
			times[name+text]++
			return string(files[0].Data)
		})
		if got != text {
			t.Errorf("of %s with %q came %q", name, text, got)
		}
	}
	for range 3 {
		ask("a", "1")
	}
	ask("b", "1") // a file of another name
	ask("a", "2") // a file that was changed
	ask("a", "1")
	if times["a1"] != 1 || times["b1"] != 1 || times["a2"] != 1 {
		t.Errorf("made %v", times)
	}
	for i := range mostMade - 1 { // a1 was asked for last, and stays
		ask("c", strconv.Itoa(i))
	}
	ask("a", "1")
	ask("b", "1")
	if times["a1"] != 1 || times["b1"] != 2 || len(b.known) != mostMade {
		t.Errorf("made %v, %d kept", times, len(b.known))
	}
}
