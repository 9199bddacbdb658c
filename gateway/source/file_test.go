package source_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/source"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// applied is what the receiver was given.
type applied struct {
	mu    sync.Mutex
	texts []string
}

// follow runs f in a bubble, and hands over what was applied so far.
func follow(t *testing.T, f source.File) (got *applied, stop func()) {
	t.Helper()
	got = new(applied)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- f.Follow(ctx, func(d source.Document) error {
			text := ""
			for _, file := range d.Files {
				text += filepath.Base(file.Name) + "=" + string(file.Data) + ";"
			}
			got.mu.Lock()
			defer got.mu.Unlock()
			got.texts = append(got.texts, text)
			return os.ErrInvalid // a receiver that refuses does not stop the source
		})
	}()
	synctest.Wait()
	return got, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Follow ended with %v, want nil", err)
		}
	}
}

// later lets d pass and everything that follows from it happen.
func later(d time.Duration) {
	time.Sleep(d) // the bubble's time, which costs none
	synctest.Wait()
}

func wantApplied(t *testing.T, got *applied, want ...string) {
	t.Helper()
	got.mu.Lock()
	defer got.mu.Unlock()
	if !slices.Equal(got.texts, want) {
		t.Fatalf("applied %q, want %q", got.texts, want)
	}
}

func TestFileFollowsADirectory(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write(t, a, "1")
	write(t, filepath.Join(dir, "notes.txt"), "not a document")
	write(t, filepath.Join(dir, ".a.yaml.swp.yaml"), "an editor's")
	synctest.Test(t, func(t *testing.T) {
		got, stop := follow(t, source.File{Path: dir})
		defer stop()
		wantApplied(t, got, "a.yaml=1;")

		write(t, a, "22")
		later(600 * time.Millisecond)
		wantApplied(t, got, "a.yaml=1;", "a.yaml=22;")

		write(t, b, "3")
		later(600 * time.Millisecond)
		wantApplied(t, got, "a.yaml=1;", "a.yaml=22;", "a.yaml=22;b.yaml=3;")

		// The same content written again is no event.
		write(t, b, "3")
		later(2 * time.Second)
		wantApplied(t, got, "a.yaml=1;", "a.yaml=22;", "a.yaml=22;b.yaml=3;")

		if err := os.Remove(b); err != nil {
			t.Fatal(err)
		}
		later(600 * time.Millisecond)
		wantApplied(t, got, "a.yaml=1;", "a.yaml=22;", "a.yaml=22;b.yaml=3;", "a.yaml=22;")
	})
}

func TestFileSeesARenameOverIt(t *testing.T) {
	dir := t.TempDir()
	path, next := filepath.Join(dir, "gw.yaml"), filepath.Join(dir, "next")
	write(t, path, "old")
	synctest.Test(t, func(t *testing.T) {
		got, stop := follow(t, source.File{Path: path})
		defer stop()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		later(2 * time.Second)
		write(t, next, "new") // same size, and we give it the same time: only the inode differs
		if err := os.Chtimes(next, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
		later(600 * time.Millisecond)
		wantApplied(t, got, "gw.yaml=old;", "gw.yaml=new;")
	})
}

// A change that leaves size, time and inode as they were shows at the full read.
func TestFileReadsInFullWhateverTheTimesSay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gw.yaml")
	write(t, path, "old")
	synctest.Test(t, func(t *testing.T) {
		got, stop := follow(t, source.File{Path: path})
		defer stop()
		later(2 * time.Second)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, "new")
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		later(20 * time.Second)
		wantApplied(t, got, "gw.yaml=old;")
		later(15 * time.Second)
		wantApplied(t, got, "gw.yaml=old;", "gw.yaml=new;")
	})
}

func TestFileThatGoesAwayIsWarnedOfAndFollowedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gw.yaml")
	write(t, path, "1")
	synctest.Test(t, func(t *testing.T) {
		warned := 0
		got, stop := follow(t, source.File{Path: path, Warn: func(error) { warned++ }})
		defer stop()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		later(600 * time.Millisecond)
		if warned != 1 {
			t.Errorf("warned %d times, want 1", warned)
		}
		wantApplied(t, got, "gw.yaml=1;")
		write(t, path, "2")
		later(600 * time.Millisecond)
		wantApplied(t, got, "gw.yaml=1;", "gw.yaml=2;")
	})
}

func TestFileThatIsMissingAtTheStartFails(t *testing.T) {
	err := source.File{Path: filepath.Join(t.TempDir(), "none.yaml")}.Follow(t.Context(), func(source.Document) error { return nil })
	if err == nil {
		t.Error("got nil, want an error")
	}
}

// Who took in a later state than the document has to be given that document when it comes
// back, and who could take in none gets it with the next full reading.
func TestFileGivesAgainWhatWasNotTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gw.yaml")
	write(t, path, "1")
	synctest.Test(t, func(t *testing.T) {
		var given atomic.Int32
		var back atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- source.File{Path: path}.Follow(ctx, func(source.Document) error {
				given.Add(1)
				if back.Load() {
					return nil
				}
				return fmt.Errorf("away: %w", source.ErrAgain)
			})
		}()
		want := func(n int32, when string) {
			t.Helper()
			synctest.Wait()
			if given.Load() != n {
				t.Fatalf("given %d times %s, want %d", given.Load(), when, n)
			}
		}
		want(1, "at first")
		write(t, path, "22")
		write(t, path, "1") // the content is what it was; the time is not
		later(600 * time.Millisecond)
		want(2, "after it changed and changed back")
		later(time.Second) // read twice, since it is so young
		want(3, "while it is young")
		back.Store(true)
		later(31 * time.Second)
		want(4, "with the full reading")
		later(time.Minute)
		want(4, "once it was taken")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
