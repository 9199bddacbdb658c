package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// gatewayStats is what the doctor reads of /stats.
type gatewayStats struct {
	Revision string `json:"revision"`
	Draining bool   `json:"draining"`
	Spool    struct {
		Dropped     int64    `json:"dropped"`
		DeadBatches int64    `json:"dead_batches"`
		Unshipped   []string `json:"unshipped"`
		LastError   string   `json:"last_error"`
	} `json:"spool"`
	Upstreams map[string]struct {
		Endpoints []struct {
			Address string `json:"address"`
			State   string `json:"state"`
		} `json:"endpoints"`
	} `json:"upstreams"`
	Headers map[string]struct {
		Answers  int64 `json:"answers"`
		Findings []struct {
			Text string `json:"text"`
			Twin string `json:"twin"`
		} `json:"findings"`
	} `json:"headers"`
	Contracts map[string]struct {
		Contract   string `json:"contract"`
		Deviations []struct {
			Text  string `json:"text"`
			Route string `json:"route"`
			Count int64  `json:"count"`
		} `json:"deviations"`
	} `json:"contracts"`
}

func (d *doctor) gateway(ctx context.Context, named func(string) bool) {
	admin := d.set.admin
	if !strings.Contains(admin, "://") {
		admin = "http://" + admin
	}
	var cfg struct {
		Revision  string `json:"revision"`
		LastError string `json:"last_error"`
	}
	status, skew, err := d.get(ctx, admin+"/debug/config", &cfg)
	switch {
	case err != nil && status == 0:
		d.away("gateway", admin, named("admin"), err)
		return
	case err != nil || status != http.StatusOK:
		d.say("gateway", "fail", "see whether that is the admin port of a gateway", "%s answered %d to /debug/config", admin, status)
		return
	case cfg.Revision == "":
		d.say("gateway", "fail", "its documents have a mistake or no route: "+orNone(cfg.LastError), "runs and serves nothing")
	case cfg.LastError != "":
		d.say("gateway", "warn", "correct it: breakwater validate", "serves revision %s; a newer one was refused: %s", cfg.Revision, firstLine(cfg.LastError))
	default:
		d.ok("gateway", "serves revision %s", cfg.Revision)
	}
	d.clock("the gateway", skew)
	var s gatewayStats
	if status, _, err := d.get(ctx, admin+"/stats", &s); err != nil || status != http.StatusOK {
		d.say("gateway", "fail", "gateway and doctor may be of different versions", "/stats cannot be read (%d): %v", status, err)
		return
	}
	d.spool(&s)
	d.endpoints(&s)
	d.headers(&s)
	d.contracts(&s)
}

func (d *doctor) spool(s *gatewayStats) {
	bad := len(d.found)
	if n := s.Spool.Dropped; n > 0 {
		d.say("spool", "warn", "give it more room (Gateway spool.max_size) or let control catch up; coverage is lower for that time", "%d events found no room", n)
	}
	if n := s.Spool.DeadBatches; n > 0 {
		d.say("spool", "warn", "gateway and control may be of different versions; the batches lie in the spool", "control refused %d batches for good", n)
	}
	if s.Spool.LastError != "" {
		d.say("spool", "warn", "events are kept until control takes them", "%s", firstLine(s.Spool.LastError))
	}
	if n := len(s.Spool.Unshipped); n > 0 {
		d.say("spool", "warn", "they are shipped as soon as control takes them", "%d earlier runs are not wholly shipped", n)
	}
	if len(d.found) == bad {
		d.ok("spool", "nothing was lost")
	}
}

func (d *doctor) endpoints(s *gatewayStats) {
	all, out := 0, []string{}
	for name, up := range s.Upstreams {
		for _, e := range up.Endpoints {
			all++
			if e.State != "ready" {
				out = append(out, name+" "+e.Address+" "+e.State)
			}
		}
	}
	slices.Sort(out)
	if len(out) > 0 {
		d.say("endpoints", "warn", "see why they fail", "%d of %d get no traffic: %s", len(out), all, strings.Join(out, ", "))
		return
	}
	d.ok("endpoints", "all %d are ready", all)
}

// headers tells of fields that policies wait for and that never come.
func (d *doctor) headers(s *gatewayStats) {
	answers, bad := int64(0), false
	for _, name := range sortedNames(s.Headers) {
		h := s.Headers[name]
		answers += h.Answers
		for _, f := range h.Findings {
			bad = true
			do := "see whether the upstream sends it, and what stands between"
			if f.Twin != "" {
				do = "name in the policy what really comes, or stop the renaming"
			}
			d.say("headers", "warn", do, "%s", f.Text)
		}
	}
	if !bad {
		d.ok("headers", "no policy waits for a field in vain, in %d answers", answers)
	}
}

func (d *doctor) contracts(s *gatewayStats) {
	bad := false
	for _, name := range sortedNames(s.Contracts) {
		c := s.Contracts[name]
		for _, v := range c.Deviations {
			bad = true
			d.say("contract", "warn", "change the contract, the policy of the route, or the upstream", "%s, route %s: %s, %d times", c.Contract, v.Route, v.Text, v.Count)
		}
	}
	if !bad && len(s.Contracts) > 0 {
		d.ok("contract", "%d upstreams answer as agreed", len(s.Contracts))
	}
}

func sortedNames[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func orNone(s string) string {
	if s == "" {
		return "it has read none yet"
	}
	return firstLine(s)
}
