package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/injector"
	"breakwater/injector/readiness"
	"breakwater/slo/traffic"
)

// lookups counts what is looked up.
type lookups struct {
	Drills
	Readiness
	Traffic
	runs, glances, traffic atomic.Int64
}

func (c *lookups) Runs(ctx context.Context, limit int) ([]injector.Run, error) {
	c.runs.Add(1)
	return c.Drills.Runs(ctx, limit)
}

func (c *lookups) Glance(ctx context.Context, since time.Time) ([]readiness.Trend, error) {
	c.glances.Add(1)
	return c.Readiness.Glance(ctx, since)
}

func (c *lookups) RetryRoutes(ctx context.Context, from, to time.Time) ([]traffic.Route, error) {
	c.traffic.Add(1)
	return c.Traffic.RetryRoutes(ctx, from, to)
}

func counting(t *testing.T, h *house) (*Server, *lookups) {
	t.Helper()
	s := h.server(t)
	c := &lookups{Drills: s.cfg.Drills, Readiness: s.cfg.Readiness, Traffic: s.cfg.Traffic}
	s.cfg.Drills, s.cfg.Readiness, s.cfg.Traffic = c, c, c
	return s, c
}

// The head of a page tells of the run under way, and does not read those that are over.
func TestTheHeadReadsNoRunsThatAreOver(t *testing.T) {
	s, c := counting(t, shop(noon))
	for _, path := range []string{"/menu", "/slos", "/gate", "/alerts", "/requests", "/simulator", "/findings", "/readiness", "/setup"} {
		if code, _, body := get(t, s.Handler(), path); code != http.StatusOK || !strings.Contains(body, "Experiment running.") {
			t.Errorf("%s: %d, and tells of no run", path, code)
		}
	}
	if n := c.runs.Load(); n > 0 {
		t.Errorf("all runs are read %d times", n)
	}
	if get(t, s.Handler(), "/runs"); c.runs.Load() != 1 {
		t.Errorf("the page of runs reads them %d times", c.runs.Load())
	}
}

// A quarter of readiness is read once for all who look, and each sees what they may.
func TestReadinessIsReadOnceForAll(t *testing.T) {
	s, c := counting(t, shop(noon))
	s.cfg.Covers = func(r *http.Request, service string) bool {
		only := r.Header.Get("Only")
		return only == "" || only == service
	}
	page := func(only, path string) string {
		r := httptest.NewRequest(http.MethodGet, "http://localhost:8081"+path, nil)
		r.Header.Set("Only", only)
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, w.Code)
		}
		return w.Body.String()
	}
	all := page("", "/readiness")
	for _, only := range []string{"order", "points"} {
		body := page(only, "/readiness")
		for _, other := range []string{"order", "points", "coupon"} {
			if !strings.Contains(all, "/readiness/"+other) {
				t.Fatalf("%s is on nobody's page", other)
			}
			if strings.Contains(body, "/readiness/"+other) != (other == only) {
				t.Errorf("who may see %s: %s is there", only, other)
			}
		}
	}
	if zh := page("", "/readiness?lang=zh-CN"); !strings.Contains(zh, `lang="zh-CN"`) || strings.Contains(zh, "the least ready first") {
		t.Error("a page in Chinese has English words of the one before")
	}
	if n := c.glances.Load(); n != 1 {
		t.Errorf("read %d times", n)
	}
}

// Tries of all routes are read once for all who look within the same minute.
func TestTriesAreReadOnceForAll(t *testing.T) {
	s, c := counting(t, shop(noon))
	for range 5 {
		for _, path := range []string{"/retries?r=6h", "/retries?r=6h&lang=zh-CN", "/retries?r=6h&format=csv"} {
			if code, _, _ := get(t, s.Handler(), path); code != http.StatusOK {
				t.Errorf("%s: %d", path, code)
			}
		}
	}
	if n := c.traffic.Load(); n != 1 {
		t.Errorf("read %d times", n)
	}
	if get(t, s.Handler(), "/retries?r=1h"); c.traffic.Load() != 2 {
		t.Error("an hour is not read for itself")
	}
}

// Many who ask for the same at once look it up once; an error is nobody else's.
func TestWhoAsksMeanwhileWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memo[int]{keep: time.Minute, most: 10}
		var looked atomic.Int64
		var wg sync.WaitGroup
		ask := func(fail bool) {
			wg.Go(func() {
				got, _, err := m.get("a", noon, func() (int, error) {
					n := looked.Add(1)
					time.Sleep(time.Second) // of the bubble's time: how long a look takes
					if fail {
						return 0, errors.New("the reader left")
					}
					return int(n), nil
				})
				if !fail && (got != 2 || err != nil) {
					t.Errorf("got %d, %v", got, err)
				}
			})
			synctest.Wait()
		}
		ask(true)
		for range 20 {
			ask(false)
		}
		wg.Wait()
		if looked.Load() != 2 {
			t.Errorf("looked up %d times", looked.Load())
		}
	})
}
