package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// gatewayStats is what the doctor reads of /stats.
type gatewayStats struct {
	Revision    string `json:"revision"`
	Draining    bool   `json:"draining"`
	Connections struct {
		Open int64 `json:"open"`
	} `json:"connections"`
	Faults struct {
		Armed []json.RawMessage `json:"armed"`
	} `json:"faults"`
	Spool struct {
		Dropped     int64    `json:"dropped"`
		DeadBatches int64    `json:"dead_batches"`
		Unshipped   []string `json:"unshipped"`
		LastError   string   `json:"last_error"`
	} `json:"spool"`
	Upstreams map[string]struct {
		Endpoints []struct {
			Address  string `json:"address"`
			State    string `json:"state"`
			InFlight int64  `json:"in_flight"`
		} `json:"endpoints"`
	} `json:"upstreams"`
	Headers map[string]struct {
		Answers  int64 `json:"answers"`
		Findings []struct {
			Text string `json:"text"`
			Twin string `json:"twin"`
		} `json:"findings"`
	} `json:"headers"`
	Substitutes map[string]struct {
		Text string `json:"text"`
	} `json:"substitutes"`
	Contracts map[string]struct {
		Contract   string `json:"contract"`
		Deviations []struct {
			Text  string `json:"text"`
			Route string `json:"route"`
			Count int64  `json:"count"`
		} `json:"deviations"`
	} `json:"contracts"`
}

// gatewayConfig is what the doctor reads of /debug/config.
type gatewayConfig struct {
	Revision  string     `json:"revision"`
	LastError string     `json:"last_error"`
	AppliedAt *time.Time `json:"applied_at"`
}

// statusError is an answer that is none of a gateway's admin port.
type statusError struct {
	path   string
	status int
	err    error
}

func (e *statusError) Error() string {
	if e.err != nil {
		return fmt.Sprintf("%s cannot be read (%d): %v", e.path, e.status, e.err)
	}
	return fmt.Sprintf("answered %d to %s", e.status, e.path)
}

func (d *doctor) adminURL() string {
	if strings.Contains(d.set.admin, "://") {
		return d.set.admin
	}
	return "http://" + d.set.admin
}

// ask reads both pages of an admin port. An error that is no statusError means that
// nobody answered.
func (d *doctor) ask(ctx context.Context) (cfg gatewayConfig, s gatewayStats, skew time.Duration, err error) {
	status, skew, err := d.get(ctx, d.adminURL()+"/debug/config", &cfg)
	if err != nil && status == 0 {
		return cfg, s, skew, err
	}
	if err != nil || status != http.StatusOK {
		return cfg, s, skew, &statusError{"/debug/config", status, err}
	}
	if status, _, err = d.get(ctx, d.adminURL()+"/stats", &s); err != nil || status != http.StatusOK {
		return cfg, s, skew, &statusError{"/stats", status, err}
	}
	return cfg, s, skew, nil
}

func (d *doctor) gateway(ctx context.Context, named func(string) bool) {
	cfg, s, skew, err := d.ask(ctx)
	trouble, answered := errors.AsType[*statusError](err)
	switch {
	case err != nil && !answered:
		d.away("gateway", d.adminURL(), named("admin"), err)
		return
	case err != nil && trouble.path == "/debug/config":
		d.say("gateway", "fail", "see whether that is the admin port of a gateway", "%s answered %d to /debug/config", d.adminURL(), trouble.status)
		return
	case cfg.Revision == "":
		d.say("gateway", "fail", "its documents have a mistake or no route: "+orNone(cfg.LastError), "runs and serves nothing")
	case cfg.LastError != "":
		d.say("gateway", "warn", "correct it: breakwater validate", "serves revision %s; a newer one was refused: %s", cfg.Revision, firstLine(cfg.LastError))
	default:
		d.ok("gateway", "serves revision %s", cfg.Revision)
	}
	d.clock("the gateway", skew)
	if err != nil {
		d.say("gateway", "fail", "gateway and doctor may be of different versions", "%v", err)
		return
	}
	d.spool(&s)
	d.endpoints(&s)
	d.headers(&s)
	d.substitutes(&s)
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

// substitutes tells of upstreams that answer as a fallback would, and do not say so.
func (d *doctor) substitutes(s *gatewayStats) {
	for _, name := range sortedNames(s.Substitutes) {
		if s.Substitutes[name].Text == "" {
			continue
		}
		d.say("fallback", "warn", "let whoever makes them up mark them with X-Breakwater-Degraded: <action>;reason=<why>", "%s", s.Substitutes[name].Text)
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
