package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var abortRuns = flag.Int("abort-runs", 0, "how often a run is aborted in each state of its life, by real processes; 0: once, and without a limit on the time it takes")

// abortStates are the states in which a rule can be armed or requests can be held, and
// the one before them.
func abortStates() []string {
	return []string{"scheduled", "arming", "baseline", "injecting", "recovering", "aborting"}
}

// abortHeld is how many requests a fault holds, or are on their way, at an abort.
const abortHeld = 200

// abortSlot is a service that is drilled again and again.
type abortSlot struct {
	*world
	rnd    *rand.Rand
	client *http.Client
}

// document is a run that holds every request for 25 s. Each phase is long enough to be
// met in it.
func (s *abortSlot) document(state string) string {
	inject := "60s"
	if state == "recovering" {
		inject = "4s"
	}
	return fmt.Sprintf(`apiVersion: breakwater/v1
kind: Scenario
id: hold-all
title: Every request is held
target: {service: held}
sample: {percent: "100%%", key: attempt, seed: auto}
phases: {baseline: 1s, inject: %s, recover: 6s}
faults:
  - {id: hold, latency: {dist: fixed, value: 25s}, toothless: allowed}
hypothesis:
  during:
    - {id: d1, sli: held.success, op: ">=", value: "50%%", min_requests: 1}
stop:
  - {sli: held.error_rate, op: ">", value: "90%%", for: 60s}
`, inject)
}

func abortShop(upstream string) string {
	return fmt.Sprintf(`
---
apiVersion: breakwater/v1
kind: Upstream
name: held
endpoints: [{address: %q}]
---
apiVersion: breakwater/v1
kind: Service
name: held
---
apiVersion: breakwater/v1
kind: Route
name: held
service: held
match: {methods: [GET], path: /held}
upstream: held
timeout: 60s
fault_visible: true
`, upstream)
}

// told is one answer: when it was there, and whether a fault had a hand in it.
type told struct {
	at       time.Time
	affected bool
	err      error
}

func (s *abortSlot) ask() told {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url["data"]+"/held", nil)
	if err != nil {
		return told{err: err}
	}
	res, err := s.client.Do(req)
	if err != nil {
		return told{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || string(body) != "fine") {
		err = fmt.Errorf("answered %d %q", res.StatusCode, body)
	}
	return told{time.Now(), res.Header.Get("X-Breakwater-Fault") != "", err}
}

// send lets so many requests go, and returns what becomes of them.
func (s *abortSlot) send(n int) (wait func() []told) {
	out := make([]told, n)
	var group sync.WaitGroup
	for i := range out {
		group.Go(func() { out[i] = s.ask() })
	}
	return func() []told { group.Wait(); return out }
}

// gatewayFaults is what the gateway says of a run: whether it holds its rule, and how
// many requests it was hit by.
func (s *abortSlot) gatewayFaults(run string) (armed bool, injected int64) {
	var stats struct {
		Faults struct {
			Armed []struct {
				Run string `json:"run"`
			} `json:"armed"`
			Tallies []struct {
				Run      string `json:"run"`
				Injected int64  `json:"injected"`
			} `json:"tallies"`
		} `json:"faults"`
	}
	s.request("GET", "admin", "/stats", "", &stats)
	for _, a := range stats.Faults.Armed {
		armed = armed || a.Run == run
	}
	for _, t := range stats.Faults.Tallies {
		if t.Run == run {
			injected = t.Injected
		}
	}
	return armed, injected
}

// armedWhole: the gateway holds the rule with its share, no longer at 0 %.
func (s *abortSlot) armedWhole(run string) bool {
	var stats struct {
		Faults struct {
			Armed []struct {
				Run string `json:"run"`
				PPM int64  `json:"ppm"`
			} `json:"armed"`
		} `json:"faults"`
	}
	s.request("GET", "admin", "/stats", "", &stats)
	for _, a := range stats.Faults.Armed {
		if a.Run == run && a.PPM > 0 {
			return true
		}
	}
	return false
}

// until looks again and again, at most for d.
func until(d time.Duration, ok func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); !ok(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// reach starts a run and waits until it is in state; false: it had gone on before it
// was seen there, or something stood in its way.
func (s *abortSlot) reach(state string) (run string, ok bool, err error) {
	var begun drill
	status, text := s.request("POST", "control", "/api/v1/experiments", s.document(state), &begun)
	if status != http.StatusCreated && status != http.StatusOK {
		return "", false, fmt.Errorf("start answered %d %s", status, text)
	}
	want := state
	if state == "aborting" || state == "recovering" {
		want = "injecting"
	}
	all := append([]string{}, abortStates()...)
	reached := until(time.Minute, func() bool {
		begun = s.run(begun.ID)
		return slices.Index(all, begun.State) >= slices.Index(all, want) || begun.Verdict != "" && begun.Verdict != "not_evaluated"
	})
	if !reached {
		return begun.ID, false, fmt.Errorf("run %s is %s, and was to be %s", begun.ID, begun.State, want)
	}
	return begun.ID, begun.State == want, nil
}

// trial aborts a run in a state with requests held, or on their way, and returns how
// long after the command the last one was affected or the rule was gone, and how many
// were held until then.
func (s *abortSlot) trial(state string) (took time.Duration, free int, err error) {
	for range 5 {
		run, there, err := s.reach(state)
		if err != nil {
			return 0, 0, err
		}
		if there {
			took, free, there, err = s.abortAt(run, state)
		}
		if over := s.over(run, state); err == nil {
			err = over
		}
		if err != nil || there {
			return took, free, err
		}
	}
	return 0, 0, fmt.Errorf("%s was never met in five runs", state)
}

func (s *abortSlot) abort(run string) error {
	if status, text := s.request("POST", "control", "/api/v1/experiments/"+run+"/abort", "{}", nil); status >= 300 {
		return fmt.Errorf("abort answered %d %s", status, text)
	}
	return nil
}

// abortAt is the trial itself; false: the run was no more in the state by then.
func (s *abortSlot) abortAt(run, state string) (took time.Duration, free int, there bool, err error) {
	holds := state == "injecting" || state == "recovering" || state == "aborting"
	var wait func() []told
	if holds {
		// The gateway takes the real rule some milliseconds after the state is written.
		if !until(20*time.Second, func() bool { return s.armedWhole(run) }) {
			return 0, 0, false, nil
		}
		wait = s.send(abortHeld)
		if !until(20*time.Second, func() bool { _, n := s.gatewayFaults(run); return n >= abortHeld }) {
			return 0, 0, false, fmt.Errorf("%s: not all are held", run)
		}
	} else {
		pause(s.t, time.Duration(s.rnd.IntN(600))*time.Millisecond) // some instant of it
		if s.run(run).State != state {
			return 0, 0, false, nil
		}
		wait = s.send(abortHeld)
	}
	if state == "recovering" && !until(30*time.Second, func() bool { return s.run(run).State != "injecting" }) {
		return 0, 0, false, fmt.Errorf("%s does not come to its end", run)
	}
	if state == "recovering" && s.run(run).State != "recovering" {
		return 0, 0, false, nil
	}
	began := time.Now()
	if err := s.abort(run); err != nil {
		return 0, 0, false, err
	}
	if state == "aborting" {
		if err := s.abort(run); err != nil {
			return 0, 0, false, err
		}
	}
	if !until(25*time.Second, func() bool { armed, _ := s.gatewayFaults(run); return !armed }) {
		return 0, 0, false, fmt.Errorf("%s: the gateway still holds the rule", run)
	}
	last := time.Now()
	for _, a := range wait() {
		switch {
		case a.err != nil:
			return 0, 0, false, fmt.Errorf("%s in %s: an abort is no failure: %w", run, state, a.err)
		case a.affected && !holds:
			return 0, 0, false, fmt.Errorf("%s was aborted in %s, and a request was affected", run, state)
		case a.affected && a.at.After(began):
			free++
			if a.at.After(last) {
				last = a.at
			}
		}
	}
	if a := s.ask(); a.err != nil || a.affected {
		return 0, 0, false, fmt.Errorf("%s: affected after all was gone: %v, %w", run, a.affected, a.err)
	}
	return last.Sub(began), free, true, nil
}

// over waits for the end of a run, whichever it is.
func (s *abortSlot) over(run, state string) error {
	var d drill
	if err := s.abort(run); err != nil {
		return err
	}
	if !until(time.Minute, func() bool {
		d = s.run(run)
		return slices.Contains([]string{"aborted", "cancelled", "completed", "engine_error"}, d.State)
	}) {
		return fmt.Errorf("%s, aborted in %s, is %s", run, state, d.State)
	}
	return nil
}

// Aborted in whatever state, by the API, over real processes, a run affects nobody a
// second later (P99), with 200 requests held or on their way.
func TestAbortInEveryState(t *testing.T) {
	if slow(t) {
		return
	}
	each := max(*abortRuns, 1)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") }))
	t.Cleanup(up.Close)
	w := newWorld(t, worldConfig{oneIn: -1, docs: func(docs map[string][]byte) {
		text := strings.Replace(string(docs["gateway.yaml"]), `caps: {max_percent: "50%", max_latency: 10s}`, `caps: {max_percent: "100%", max_latency: 30s}`, 1)
		docs["gateway.yaml"] = []byte(text + abortShop(up.Listener.Addr().String()))
		delete(docs, "drills.yaml")
	}})
	// One after the other: a run that hits more than a tenth of all traffic is alone.
	s := &abortSlot{world: w, rnd: rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano()))),
		client: &http.Client{Timeout: 90 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: abortHeld + 10}}}
	defer s.client.CloseIdleConnections()
	took := map[string][]time.Duration{}
	held := map[string]int{}
	for range each {
		for _, state := range abortStates() {
			d, free, err := s.trial(state)
			if err != nil {
				t.Error(err)
				continue
			}
			took[state], held[state] = append(took[state], d), held[state]+free
		}
	}
	for _, state := range abortStates() {
		all := took[state]
		if len(all) == 0 {
			t.Errorf("no trial in %s", state)
			continue
		}
		if state == "injecting" && held[state] == 0 {
			t.Error("nothing was held when a run was aborted while it injected")
		}
		slices.Sort(all)
		t.Logf("%-10s %3d trials, %d requests set free: median %v, P99 %v, longest %v", state, len(all), held[state],
			all[len(all)/2].Round(time.Millisecond), all[len(all)*99/100].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
		// Measured only where nothing else is: in a normal run any process may stand still.
		if p99 := all[len(all)*99/100]; *abortRuns > 0 && p99 > time.Second {
			t.Errorf("%s: P99 from the command to the last affected request is %v, want 1 s at most", state, p99)
		}
	}
}
