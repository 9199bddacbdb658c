package spool

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"breakwater/internal/histogram"
)

// foldingChild folds without end and says how many it has answered.
func foldingChild(dir, url string) {
	s, err := Open(Config{
		Dir: dir, Gateway: "gw", Env: "test", Token: "secret", Control: url, SegmentBytes: 1 << 20, Every: 20 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	go func() { _ = s.Ship(context.Background()) }()
	var out sync.Mutex
	for w := range foldingWorkers {
		go func() {
			for i := 0; ; i++ {
				s.fold1(plainOne(fmt.Sprintf("%d-%d", w, i), int64(900+i%300)))
				out.Lock()
				_, _ = os.Stdout.WriteString("1\n")
				out.Unlock()
			}
		}()
	}
	select {}
}

const foldingWorkers = 4

func TestReliability_F7_FoldedCountsOutliveAKill(t *testing.T) {
	c := newControl(t)
	dir := t.TempDir()
	answered, kills := int64(0), 6
	r := rand.New(rand.NewPCG(7, 8))
	for range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir, childURL+"="+c.URL, childFolds+"=1")
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		enough := 300 + r.IntN(2500)
		lines := bufio.NewScanner(stdout)
		for n := 0; lines.Scan(); n++ {
			if n == enough {
				_ = cmd.Process.Kill() // what is still in the pipe was answered, too
			}
			if lines.Text() != "1" && lines.Text() != "" {
				t.Fatal(lines.Text())
			}
			answered++
		}
		_ = cmd.Wait()
	}
	s := open(t, config(t, dir, c))
	stop := run(t, s)
	eventually(t, "old boots shipped", func() bool { return len(s.Stats().Unshipped) == 0 })
	stop()
	got := c.seen(t)
	var arrived, lost int64
	all := c.lines(t)
	for _, x := range all {
		arrived += x.Count
		if bin := histogram.Index(x.LatencyUS); bin < histogram.Index(900) || bin > histogram.Index(1200) {
			t.Errorf("a latency nobody had: %+v", x)
		}
	}
	for _, n := range got.lost {
		lost += n
	}
	// A worker is killed at most once between what it counted and its word for it.
	if most := int64(kills * foldingWorkers); arrived < answered || arrived > answered+most || lost > most {
		t.Errorf("%d answered, %d arrived, %d said to be lost", answered, arrived, lost)
	}
	if left := files(t, dir, "*", foldName+"*"); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	t.Logf("%d answered, %d arrived in %d lines, %d said to be lost", answered, arrived, len(all), lost)
}

// A kill may come between the line and its slot set free, and the next start may
// be killed at each of its steps.
func TestALineIsWrittenOnceWhateverIsCutShort(t *testing.T) {
	for _, at := range []string{"before", "some lines written", "text written", "segment made"} {
		t.Run(at, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, config(t, dir, nil))
			for i := range 300 {
				r := plainOne(fmt.Sprint(i), 1000)
				r.Exchange.Caller = fmt.Sprint(i % 30)
				s.fold1(r)
			}
			if at == "some lines written" {
				n := 0
				for i := range s.fold.slots {
					if n < 20 && s.fold.slots[i].state.Load() == slotReady {
						s.unfold(&s.fold.slots[i])
						n++
					}
				}
			}
			abandon(s)
			if at == "text written" || at == "segment made" {
				if _, err := unfoldOld(s.dir, nil, 0, (*os.File).Sync); err != nil {
					t.Fatal(err)
				}
			}
			if at == "text written" { // the step before: the text still has the file's name
				all, err := segments(s.dir)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(all[len(all)-1].path, filepath.Join(s.dir, foldName)); err != nil {
					t.Fatal(err)
				}
			}
			c := newControl(t)
			again := open(t, config(t, dir, c))
			stop := run(t, again)
			eventually(t, "the old boot shipped", func() bool { return len(again.Stats().Unshipped) == 0 })
			stop()
			got := map[string]int64{}
			for _, x := range c.lines(t) {
				got[x.Caller] += x.Count
			}
			for caller, n := range got {
				if n != 10 {
					t.Errorf("caller %s: %d times", caller, n)
				}
			}
			if lost := c.seen(t).lost[s.id]; len(got) != 30 || lost != 0 {
				t.Errorf("%d callers, %d lost", len(got), lost)
			}
		})
	}
}
