package spool

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/internal/retrylog"
)

const childDir, childURL, childFolds = "BREAKWATER_SPOOL_CHILD", "BREAKWATER_SPOOL_CONTROL", "BREAKWATER_SPOOL_FOLDS"

// TestMain lets the test binary stand for a gateway that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if os.Getenv(childFolds) != "" {
			foldingChild(dir, os.Getenv(childURL))
		}
		child(dir, os.Getenv(childURL))
		return
	}
	os.Exit(m.Run())
}

const hanging = 3 // exchanges of the child that never end

// child records without end and says each id once it is answered.
func child(dir, url string) {
	s, err := Open(Config{
		Dir: dir, Gateway: "gw", Env: "test", Token: "secret", Control: url, SegmentBytes: 1 << 20, Every: 10 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	go func() { _ = s.Ship(context.Background()) }()
	for range hanging {
		s.Begin()
	}
	var out sync.Mutex
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%s-%d-%d", s.id, w, i)
				s.one(id)
				out.Lock() // the pipe slows this down to what a keeper can follow
				_, _ = os.Stdout.WriteString(id + "\n")
				out.Unlock()
			}
		}()
	}
	select {}
}

func TestReliability_F7_NothingAnsweredIsLostInAKill(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	posts := 0
	c := newControl(t, func(retrylog.Batch, []byte) (int, bool, bool) {
		posts++
		return 200, true, posts%7 == 0 // answers get lost, too
	})
	dir := t.TempDir()
	answered := map[string]bool{}
	const kills = 6
	for range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir, childURL+"="+c.URL)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		enough := 1 + r.IntN(1500)
		lines := bufio.NewScanner(stdout)
		for n := 0; lines.Scan(); n++ {
			if n == enough {
				_ = cmd.Process.Kill() // what is still in the pipe was answered, too
			}
			if strings.HasPrefix(lines.Text(), "error") {
				t.Fatal(lines.Text())
			}
			answered[lines.Text()] = true
		}
		_ = cmd.Wait()
	}

	s := open(t, config(t, dir, c))
	stop := run(t, s)
	eventually(t, "old boots shipped", func() bool { return len(s.Stats().Unshipped) == 0 })
	stop()
	got := c.seen(t)
	for id, n := range got.ids {
		if n != 1 {
			t.Errorf("%s was counted %d times", id, n)
		}
	}
	missing := 0
	for id := range answered {
		if got.ids[id] == 0 {
			missing++
		}
	}
	var lost int64
	for boot, n := range got.lost {
		if boot == s.id {
			continue
		}
		lost += n
		if got.last[boot] || n < hanging {
			t.Errorf("boot %s lost %d, last %v", boot, n, got.last[boot])
		}
	}
	// Answered and missing can only be what was dropped for want of a segment.
	// At most the four workers were between Begin and Record.
	drops := lost - kills*hanging
	if int64(missing) > drops || missing > len(answered)/20 || drops > int64(missing)+4*kills {
		t.Errorf("%d of %d answered are missing, %d lost beside %d hanging", missing, len(answered), drops, kills*hanging)
	}
	if got.notices["unclean_stop"] < kills*hanging {
		t.Errorf("notices %v", got.notices)
	}
	t.Logf("%d answered, %d arrived, %d missing, %d said to be lost", len(answered), len(got.ids), missing, lost)
}

// A copy taken while eight writers are at work is what a power cut may leave.
func TestAnyCopyOfTheDirectoryCanBeTakenOver(t *testing.T) {
	dir := t.TempDir()
	s := open(t, config(t, dir, nil))
	stopShip := run(t, s)
	var group sync.WaitGroup
	tokens := make(chan struct{}, 8)
	var mu sync.Mutex
	done := map[string]bool{}
	for w := range 8 {
		group.Go(func() {
			for i := 0; ; i++ {
				if _, more := <-tokens; !more {
					return
				}
				before := s.counters.Load().dropped.Load()
				id := fmt.Sprintf("%d-%d", w, i)
				s.one(id)
				if s.counters.Load().dropped.Load() == before {
					mu.Lock()
					done[id] = true
					mu.Unlock()
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(8, 9))
	for round := range 6 {
		for range 300 { // the last ones are under way during the copy
			tokens <- struct{}{}
		}
		mu.Lock()
		want := make([]string, 0, len(done))
		for id := range done {
			want = append(want, id)
		}
		mu.Unlock()
		var copied string
		eventually(t, "a copy without a file renamed under it", func() bool {
			copied = t.TempDir()
			return os.CopyFS(copied, os.DirFS(dir)) == nil
		})
		damage := round % 3
		if damage > 0 {
			opens := files(t, copied, s.id, "*"+openExt)
			hurt(t, r, opens[0], damage)
		}
		c := newControl(t)
		again := open(t, config(t, copied, c))
		stop := run(t, again)
		eventually(t, "the old boot shipped", func() bool { return len(again.Stats().Unshipped) == 0 })
		stop()
		got := c.seen(t)
		missing := 0
		for _, id := range want {
			if got.ids[id] != 1 {
				missing++
			}
		}
		if damage == 0 && missing > 0 || got.ids["made-up"] > 0 {
			t.Errorf("round %d: %d of %d missing", round, missing, len(want))
		}
	}
	close(tokens)
	group.Wait()
	stopShip()
}

// hurt cuts a file at random, or flips one of its bits.
func hurt(t *testing.T, r *rand.Rand, path string, how int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := r.IntN(max(1, len(bytes.TrimRight(data, "\x00"))))
	if how == 1 {
		data = data[:at]
	} else {
		data[at] ^= 0x20
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func abandon(s *Spool) {
	// What a kill leaves: nothing flushed, nothing said, the lock free.
	s.lock.Release()
}

func TestATornTailIsCutAndABadLineIsCounted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, config(t, dir, nil))
	for i := range 5 {
		s.one(fmt.Sprint(i))
	}
	seg := s.active.Load()
	size := seg.reserved.Load()
	line := int(size) / 5
	copy(seg.mem[size:], `{"exchange":{"count":1,"request_id":"to`)
	seg.mem[2*line+40] ^= 1 // bit rot in the third line
	abandon(s)

	c := newControl(t)
	again := open(t, config(t, dir, c))
	stop := run(t, again)
	eventually(t, "the old boot shipped", func() bool { return len(again.Stats().Unshipped) == 0 })
	stop()
	got := c.seen(t)
	if len(got.ids) != 4 || got.lost[s.id] != 1 || got.notices["torn_tail"] != 1 || got.notices["bad_line"] != 1 || again.Stats().BadLines != 1 {
		t.Errorf("ids %v, lost %v, notices %v, stats %+v", got.ids, got.lost, got.notices, again.Stats())
	}
	sealed := files(t, dir, s.id, "*"+sealedExt)
	if len(sealed) != 1 {
		t.Fatalf("segments %v", sealed)
	}
	if info, err := os.Stat(sealed[0]); err != nil || info.Size() != size {
		t.Errorf("sealed at %d, want %d (%v)", info.Size(), size, err)
	}
}

func TestTheNextBootShipsWhatControlMissed(t *testing.T) {
	dir := t.TempDir()
	c := newControl(t)
	away := config(t, dir, c)
	away.Client = &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })}
	s := open(t, away)
	s.one("a")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Ship(ctx) }()
	eventually(t, "a try", func() bool { return strings.Contains(s.Stats().LastError, "unexpected EOF") })
	cancel()
	<-done
	s.one("b")
	s.Begin() // cut off by the stop
	ended, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Close(ended); err != nil {
		t.Fatal(err)
	}

	again := open(t, config(t, dir, c))
	stop := run(t, again)
	eventually(t, "the old boot shipped", func() bool { return len(again.Stats().Unshipped) == 0 })
	stop()
	got := c.seen(t)
	if got.ids["a"] != 1 || got.ids["b"] != 1 || !got.last[s.id] || got.lost[s.id] != 1 || got.notices["unclean_stop"] != 0 {
		t.Errorf("%+v", got)
	}
	third := open(t, config(t, dir, c))
	if left := third.Stats().Unshipped; len(left) != 0 {
		t.Errorf("shipped boots are shipped again: %v", left)
	}
	_ = third.Close(context.Background())
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnUnreadableBootIsSetAside(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"00aa", "00bb"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "00aa", "00000001.log"), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := newControl(t)
	s := open(t, config(t, dir, c))
	stop := run(t, s)
	stop()
	if n := c.seen(t).notices["boot_unreadable"]; n != 1 {
		t.Errorf("%d notices", n)
	}
	if got := files(t, dir, asideDir, "00aa", "*.log"); len(got) != 1 {
		t.Error("its segment is gone")
	}
	if got := files(t, dir, "00bb"); len(got) != 0 {
		t.Error("an empty folder was kept")
	}
}
