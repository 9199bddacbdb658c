package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/slo/now"
)

var (
	outageSeeds = flag.Int("outageseeds", 1, "how many seeds TestTenOutages plays, each about a minute")
	outageFirst = flag.Uint64("outageseed", 20, "the first seed")
)

// truth is what an outage really is: known to the script and its judge, and never
// told to control.
type truth struct {
	what     string
	service  *townService
	kind     now.Kind
	subject  string // "": any of the kind
	caller   string // who is hit, where it is one alone
	begins   time.Duration
	begin    func()
	onset    time.Time
	sure     time.Time // since when the first cause has been the true one
	situated now.Situation
}

const (
	townSLO = `---
apiVersion: openslo/v1
kind: SLO
metadata: {name: %[1]s-availability}
spec:
  service: %[1]s
  budgetingMethod: Occurrences
  timeWindow: [{duration: 30d, isRolling: true}]
  indicator:
    metadata: {name: %[1]s-requests}
    spec:
      ratioMetric:
        counter: true
        good: {metricSource: {type: breakwater, spec: {class: good}}}
        total: {metricSource: {type: breakwater, spec: {class: valid}}}
  objectives: [{displayName: available, target: 0.5}]
`
	townDrill = `
apiVersion: breakwater/v1
kind: Scenario
id: drill
title: Reads and writes are lost
target: {service: %s}
sample: {percent: "%d%%", key: attempt, seed: auto}
phases: {baseline: 5s, inject: 3m, recover: 5s}
faults:
  - {id: lose, error: {status: 500}}
hypothesis:
  steady:
    - {id: s1, sli: %[1]s.success, op: ">=", value: "10%%", min_requests: 10}
  during:
    - {id: d1, sli: %[1]s.success, op: ">=", value: "10%%", min_requests: 10}
stop:
  - {sli: %[1]s.error_rate, op: ">", value: "95%%", for: 60s}
`
)

// script puts the ten outages on ten services, all drawn from the seed.
func (c *town) script() []*truth {
	share := func() int { return 60 + c.rnd.IntN(41) } // percent of what it touches
	order := c.rnd.Perm(10)
	next := 0
	add := func(what string, kind now.Kind, subject string) *truth {
		x := &truth{what: what, kind: kind, subject: subject, service: c.services[order[next]], begins: time.Duration(c.rnd.IntN(10_000)) * time.Millisecond}
		next++
		return x
	}
	// fails has a part of the instances answer 500 to a share of requests.
	fails := func(s *townService, percent int, hit func(*townInstance) bool) {
		dice := rand.New(rand.NewPCG(c.seed, 99))
		var mu sync.Mutex
		do := func(in *townInstance, _ *http.Request) int {
			mu.Lock()
			defer mu.Unlock()
			if hit(in) && dice.IntN(100) < percent {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		}
		s.behaves.Store(&do)
	}

	one := add("one instance", now.AnInstance, "")
	ill, size := c.rnd.IntN(6), share()
	one.subject = one.service.instances[ill].name
	one.service.shards = true
	one.begin = func() { fails(one.service, size, func(in *townInstance) bool { return in.number == ill }) }

	rack := add("one rack", now.ARack, fmt.Sprintf("rack-%c", 'a'+rune(c.rnd.IntN(3))))
	rackSize := share()
	rack.begin = func() { fails(rack.service, rackSize, func(in *townInstance) bool { return in.rack == rack.subject }) }

	payload := add("one caller's bad payload", now.ACaller, townCallers[1+c.rnd.IntN(3)].name)
	payload.caller = payload.subject
	payload.begin = func() { payload.service.poison.Store(&payload.subject) }

	slow := add("a dependency slow", now.ADependency, c.services[10].name)
	slow.service.calls = c.services[10]
	lateness := time.Duration(1200+c.rnd.IntN(1000)) * time.Millisecond
	slow.begin = func() {
		do := func(_ *townInstance, r *http.Request) int {
			select {
			case <-time.After(lateness):
			case <-r.Context().Done():
			}
			return http.StatusOK
		}
		c.services[10].behaves.Store(&do)
	}

	deploy := add("a deploy", now.ADeploy, fmt.Sprintf("v%d", 2+c.rnd.IntN(90)))
	deploySize, gap := share(), time.Duration(1+c.rnd.IntN(5))*time.Second
	deploy.begin = func() {
		status, text := c.request("POST", "control", "/api/v1/events/deploys", fmt.Sprintf(`{"service":%q,"env":"town","ref":%q,"title":"a release"}`, deploy.service.name, deploy.subject), nil)
		if status != http.StatusNoContent {
			c.t.Errorf("mark the deploy: %d %s", status, text)
		}
		time.Sleep(gap) // it takes effect a little later
		fails(deploy.service, deploySize, func(*townInstance) bool { return true })
	}

	config := add("a config change", now.AConfig, "")
	key, value := "timeout "+config.service.name, "2ms"
	if c.rnd.IntN(2) == 0 {
		key, value = "dead "+config.service.name, "yes"
	}
	config.begin = func() {
		c.mu.Lock()
		c.settings[key] = value
		c.mu.Unlock()
		c.publish()
	}

	drill := add("an experiment", now.AnExperiment, "")
	drillSize := 30 + c.rnd.IntN(15)
	drill.begin = func() {
		status, text := c.request("POST", "control", "/api/v1/experiments", fmt.Sprintf(townDrill, drill.service.name, drillSize), nil)
		if status != http.StatusCreated && status != http.StatusOK {
			c.t.Errorf("start the experiment: %d %s", status, text)
			return
		}
		id := c.newest()
		c.await("the experiment injects", 60*time.Second, func() bool { return c.run(id).State == "injecting" })
		c.mu.Lock()
		drill.subject = id
		c.mu.Unlock()
	}

	limit := add("a limiter set too low", now.ALimit, "")
	c.settings["route "+limit.service.name] = fmt.Sprintf("limit: {rate: %d/s, burst: 5, key: route}\n", 12+c.rnd.IntN(4))
	limit.begin = func() { limit.service.perSecond.Store(60) } // both routes: 30 a second each

	name := add("a DNS failure", now.AName, "")
	name.service.named = true
	name.begin = func() { c.names.lost.Store(name.service.name, true) }

	storm := add("a retry storm", now.AStorm, "")
	storm.service.only = "GET"
	c.settings["route "+storm.service.name] = "retry: {enabled: true, max_retries: 2, per_try_timeout: 300ms, retry_on_status: [502, 503, 504], backoff_base: 50ms, fallback_strategy: pass_through}\n"
	c.settings["upstream "+storm.service.name] = "retry_budget: off\nbreaker: {enabled: false}\n"
	c.settings["service "+storm.service.name] = "breaker: {enabled: false}\n"
	stall := time.Duration(3000+c.rnd.IntN(2000)) * time.Millisecond
	// One database serves all instances, 33 requests a second, in their order, whether
	// or not anybody still waits. It has room for twice what is asked, not for three
	// times: once it is behind, retries keep it there.
	var mu sync.Mutex
	var free time.Time
	do := func(*townInstance, *http.Request) int {
		mu.Lock()
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(30 * time.Millisecond)
		turn := free
		mu.Unlock()
		time.Sleep(min(time.Until(turn), 5*time.Second))
		return http.StatusOK
	}
	storm.service.behaves.Store(&do)
	storm.begin = func() {
		mu.Lock()
		defer mu.Unlock()
		free = time.Now().Add(stall) // it stands still once, and is well again
	}

	list := []*truth{one, rack, payload, slow, deploy, config, drill, limit, name, storm}
	slices.SortStableFunc(list, func(a, b *truth) int { return strings.Compare(a.service.name, b.service.name) })
	return list
}

func (x *truth) found(s now.Situation, subject string) bool {
	return s.State == now.Hit && len(s.Causes) > 0 && s.Causes[0].Kind == x.kind && (subject == "" || s.Causes[0].Subject == subject)
}

// affected reports whether s names who is hit.
func (x *truth) affected(s now.Situation) bool {
	if s.State != now.Hit || s.Who.HitPPM == nil || *s.Who.HitPPM == 0 || len(s.Who.Callers) == 0 || len(s.Who.Routes) == 0 || s.Since == nil {
		return false
	}
	return x.caller == "" || s.Who.Callers[0].Value == x.caller && s.Who.Callers[0].HitsPPM > 800_000
}

// Ten outages of ten causes at once, on ten services of one town: `now` names who is
// hit and puts the true cause first in at least nine, within 60 s of each onset.
func TestTenOutages(t *testing.T) {
	if slow(t) {
		return
	}
	for n := range *outageSeeds {
		seed := *outageFirst + uint64(n)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { tenOutages(t, seed) })
	}
}

func tenOutages(t *testing.T, seed uint64) {
	c := newTown(t, seed)
	script := c.script()
	slos := ""
	for _, s := range c.services {
		slos += fmt.Sprintf(townSLO, s.name)
	}
	c.open(slos)
	// What always happens somewhere, and is no cause of anything here.
	for _, s := range c.services {
		at := time.Now().Add(-20 * time.Minute).UTC().Format(time.RFC3339)
		c.request("POST", "control", "/api/v1/events/deploys", fmt.Sprintf(`{"service":%q,"env":"town","ref":"v1","at":%q}`, s.name, at), nil)
	}
	c.busy()
	pause(t, 8*time.Second)
	var begun sync.WaitGroup
	for _, x := range script {
		begun.Go(func() {
			time.Sleep(x.begins)
			x.begin()
			c.mu.Lock()
			x.onset = time.Now()
			c.mu.Unlock()
		})
	}
	begun.Wait()
	right := 0
	for end := time.Now().Add(60 * time.Second); ; pause(t, 2*time.Second) {
		right = 0
		all := true
		for _, x := range script {
			var a now.Answer
			if status, text := c.request("GET", "control", "/api/v1/now?service="+x.service.name+"&env=town", "", &a); status != http.StatusOK || a.Situation == nil {
				t.Fatalf("now: %d %s", status, text)
			}
			x.situated = *a.Situation
			if !x.found(x.situated, x.subject) || !x.affected(x.situated) {
				x.sure, all = time.Time{}, false
				continue
			}
			if x.sure.IsZero() {
				x.sure = time.Now()
			}
			all = all && time.Since(x.sure) > 5*time.Second // and it stays so
			if x.sure.Sub(x.onset) <= 60*time.Second {
				right++
			}
		}
		if all || time.Now().After(end) {
			break
		}
	}
	table := fmt.Sprintf("seed %d: %d of 10\n", seed, right)
	for _, x := range script {
		first, took := "nothing", "never"
		if len(x.situated.Causes) > 0 {
			k := x.situated.Causes[0]
			first = fmt.Sprintf("%s %s (%d)", k.Kind, k.Subject, k.Score)
		}
		if len(x.situated.Causes) > 1 {
			k := x.situated.Causes[1]
			first += fmt.Sprintf(", then %s %s (%d)", k.Kind, k.Subject, k.Score)
		}
		if !x.sure.IsZero() {
			took = fmt.Sprintf("%.0f s", x.sure.Sub(x.onset).Seconds())
		}
		table += fmt.Sprintf("  %-25s on %s, first after %-6s %s\n", x.what, x.service.name, took, first)
	}
	t.Log(table)
	c.darkness(script)
	if right < 9 {
		for _, x := range script {
			if x.sure.IsZero() {
				t.Logf("%s (%s)\n%s", x.what, x.service.name, x.situated.Text())
			}
		}
		t.Errorf("the true cause is first in %d of 10, want 9", right)
	}
}

// darkness takes the database away: what was known is still said, and until when.
func (c *town) darkness(script []*truth) {
	i := slices.IndexFunc(script, func(x *truth) bool { return !x.sure.IsZero() })
	if i < 0 {
		return // nothing was found, which is told already
	}
	name := script[i].service.name
	ask := func(args ...string) ran {
		return verb(c.t, "", append([]string{"now", name, "--env", "town", "--control", c.url["control"]}, args...)...)
	}
	if r := ask(); r.code != exitNo || !strings.Contains(r.out, "WHO IS HIT") || !strings.Contains(r.out, "BY WHAT MEASURE") || !strings.Contains(r.out, "WHAT PROTECTS") {
		c.t.Errorf("the verb ended with %d\n%s%s", r.code, r.out, r.err)
	}
	if r := ask("-o", "md"); r.code != exitNo || !strings.HasPrefix(r.out, "# "+name) {
		c.t.Errorf("as Markdown: %d\n%s%s", r.code, r.out, r.err)
	}
	if err := c.pg.Stop(); err != nil {
		c.t.Fatal(err)
	}
	var a now.Answer
	c.request("GET", "control", "/api/v1/now?service="+name+"&env=town", "", &a)
	if s := a.Situation; s == nil || !s.Stale || s.State != now.Hit || s.DataUntil == nil || len(s.Causes) == 0 {
		c.t.Errorf("without a database: %+v", s)
	}
	if r := ask(); r.code != exitNo || !strings.Contains(r.out, "The database is away, data reaches until") {
		c.t.Errorf("without a database the verb ended with %d\n%s%s", r.code, r.out, r.err)
	}
}
