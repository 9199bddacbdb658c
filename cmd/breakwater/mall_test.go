package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/internal/auth"
)

// mall is a world in which many shops share one gateway and one control: each is
// asked at an address of its own, so their drills go on side by side.
type mall struct {
	*world
	client *http.Client
	second string // token of somebody who may approve what another has begun
}

// asked is one request that is made over and over.
type asked struct {
	method, path, body string
	perSecond          float64
}

// callOn asks shop n until the test ends, whether or not it answers in time.
func (m *mall) callOn(n int, all ...asked) {
	base := "http://" + shopHost(n) + m.url["data"][strings.LastIndex(m.url["data"], ":"):]
	for _, a := range all {
		m.background(func(ctx context.Context) error {
			var group sync.WaitGroup
			defer group.Wait()
			permits := make(chan struct{}, 100)
			each := time.Duration(float64(time.Second) / a.perSecond)
			due := time.Now()
			for i := 0; ; i++ {
				// A machine that stood still makes up for a second of it, not for more.
				if due = due.Add(each); time.Since(due) > time.Second {
					due = time.Now()
				}
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(time.Until(due)):
				}
				select {
				case permits <- struct{}{}:
				default:
					continue // too many wait already
				}
				group.Go(func() {
					defer func() { <-permits }()
					m.call(ctx, base, a, i)
				})
			}
		})
	}
}

func (m *mall) call(ctx context.Context, base string, a asked, i int) {
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), a.method, base+strings.ReplaceAll(a.path, "{}", strconv.Itoa(i%500)), strings.NewReader(a.body))
	if err != nil {
		return
	}
	req.Header.Set("X-Caller", "web")
	if a.path == "/order/orders" { // each is a wish of its own
		req.Header.Set("Idempotency-Key", fmt.Sprintf("mall-%d", i))
	}
	req.Header.Set("X-Demo-Id", fmt.Sprintf("mall-%d", i))
	res, err := m.client.Do(req)
	if err != nil {
		return // the verdict tells
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
}

// drilled is a run as the API tells it.
type drilled struct {
	drill
	Receipts []struct {
		RemovedAt time.Time `json:"removed_at"`
	} `json:"receipts"`
	Assertions []struct {
		ID       string `json:"id"`
		Phase    string `json:"phase"`
		Expected string `json:"expected"`
		Seen     string `json:"seen"`
		Result   string `json:"result"`
		Weakness string `json:"weakness"`
		Right    string `json:"right"`
	} `json:"assertions"`
}

// weak are the names of what a run shows.
func (d drilled) weak() (names []string) {
	for _, a := range d.Assertions {
		if a.Weakness != "" {
			names = append(names, a.Weakness)
		}
	}
	return names
}

func (d drilled) tell() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s: %s (%s), %d of %d tries", d.Scenario, d.ID, d.State, d.Verdict, d.Why, d.Injected, d.Attempts)
	for _, a := range d.Assertions {
		fmt.Fprintf(&b, "\n    %s %s: %s, saw %s: %s %s", a.Phase, a.ID, a.Expected, a.Seen, a.Result, a.Weakness)
	}
	return b.String()
}

// hold starts a drill, once no other stands in its way, and waits for its end.
func (m *mall) hold(text string) (d drilled, err error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); <-tick.C {
		var free bool
		if d, free, err = m.holdOnce(text, tick.C); free || err != nil {
			return d, err
		}
	}
	return d, fmt.Errorf("others stood in the way of the drill for too long:\n%s", text)
}

func (m *mall) holdOnce(text string, tick <-chan time.Time) (d drilled, free bool, err error) {
	var begun drill
	status, reply := m.request("POST", "control", "/api/v1/experiments", text, nil)
	switch {
	case status == http.StatusConflict || status == 0 || status == http.StatusServiceUnavailable:
		return d, false, nil
	case status != http.StatusCreated && status != http.StatusOK:
		return d, false, fmt.Errorf("start answered %d %s\n%s", status, reply, text)
	}
	if id := regexp.MustCompile(`"id": *"([^"]+)"`).FindStringSubmatch(reply); id != nil {
		begun.ID = id[1]
	}
	if strings.Contains(text, "after_upstream") { // waits for a second person everywhere
		if r := m.verb(m.second, "experiment", "approve", begun.ID); r.code != exitOK {
			return d, false, fmt.Errorf("approve %s: %d %s%s", begun.ID, r.code, r.out, r.err)
		}
	}
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); <-tick {
		if status, _ := m.request("GET", "control", "/api/v1/experiments/"+begun.ID, "", nil); status != http.StatusOK {
			continue
		}
		d = drilled{}
		m.request("GET", "control", "/api/v1/experiments/"+begun.ID, "", &d)
		if slices.Contains([]string{"completed", "aborted", "engine_error", "cancelled", "skipped", "expired", "rejected"}, d.State) {
			return d, d.State != "skipped", nil
		}
	}
	return d, false, fmt.Errorf("%s is not over: %s", begun.ID, d.tell())
}

// holdSure holds a drill again where it showed nothing, or not what was expected: a
// machine that stood still for a while spoils one, and seldom two.
func (m *mall) holdSure(text string, expected func(drilled) bool) (d drilled, err error) {
	for range 2 {
		if d, err = m.hold(text); err != nil || expected(d) {
			return d, err
		}
		m.t.Logf("once more: %s", d.tell())
	}
	return d, nil
}

var drillSpan = regexp.MustCompile(`\b(baseline|inject|recover|within|window|for): ([0-9]+)(s|m)\b`)

// compressed is a drill in a fifteenth of its time. Spans in which a machine that
// stands still would decide are not made that short, and what counts requests asks
// for a tenth of them.
func compressed(text string) string {
	least := map[string]time.Duration{"baseline": 10, "inject": 25, "recover": 6, "within": 20, "window": 10, "for": 10}
	most := map[string]time.Duration{"baseline": 12, "inject": 30, "recover": 8, "within": 30, "window": 10, "for": 10}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.Contains(line, "pulse:") {
			lines[i] = strings.NewReplacer("every: 30s", "every: 8s", "for: 4s", "for: 2s").Replace(line)
			continue
		}
		line = drillSpan.ReplaceAllStringFunc(line, func(s string) string {
			p := drillSpan.FindStringSubmatch(s)
			n, _ := strconv.Atoi(p[2])
			d := time.Duration(n) * map[string]time.Duration{"s": time.Second, "m": time.Minute}[p[3]] / 15
			d = min(max(d, least[p[1]]*time.Second), most[p[1]]*time.Second)
			return fmt.Sprintf("%s: %ds", p[1], int(d.Seconds()))
		})
		line = regexp.MustCompile(`min_requests: ([0-9]+)`).ReplaceAllStringFunc(line, func(s string) string {
			n, _ := strconv.Atoi(strings.TrimPrefix(s, "min_requests: "))
			return fmt.Sprintf("min_requests: %d", max(n/10, 10))
		})
		// Latencies are kept by whole minutes, and what is counted while a breaker is open
		// by polls: nothing so short holds any.
		if regexp.MustCompile(`\.p[0-9]+,|while:`).MatchString(line) {
			line = strings.TrimSuffix(line, "}") + ", optional: true}"
		}
		lines[i] = strings.ReplaceAll(line, "windows: [1m, 5m]", "windows: [10s, 20s]")
	}
	return strings.Join(lines, "\n")
}

// openMall starts a world with the documents of shops beside its own.
func openMall(t *testing.T, text string) *mall {
	t.Helper()
	w := newWorld(t, worldConfig{oneIn: -1, everywhere: true, docs: func(docs map[string][]byte) {
		docs["gateway.yaml"] = []byte(strings.Replace(string(docs["gateway.yaml"]), `max_percent: "50%"`, `max_percent: "100%"`, 1))
		docs["shops.yaml"] = []byte(text)
		delete(docs, "drills.yaml")
	}})
	m := &mall{world: w, client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 200}}}
	t.Cleanup(m.client.CloseIdleConnections)
	m.second = m.person("ben", auth.Approver)
	return m
}
