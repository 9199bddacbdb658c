package lockfile

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	first, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(path); !errors.Is(err, ErrHeld) {
		t.Errorf("a second owner got %v, want ErrHeld", err)
	}
	first.Release()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	again, err := Take(path)
	if err != nil {
		t.Fatalf("after a release: %v", err)
	}
	again.Release()
	(*Lock)(nil).Release()
}

func TestOneOwnerAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	var owners, most int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := 0; n < 200; {
				l, err := Take(path)
				if errors.Is(err, ErrHeld) {
					n++
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				owners++
				most = max(most, owners)
				mu.Unlock()
				mu.Lock()
				owners--
				mu.Unlock()
				l.Release()
				n++
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d owners at once, want 1", most)
	}
}
