// Package openslo reads promises from OpenSLO v1 documents and writes them back, as
// documents and as rules for Prometheus; Import reads those of other tools. What
// breakwater would not honour is refused or told, never dropped in silence.
package openslo

import (
	"strings"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// Version is the apiVersion that is read and written.
const Version = "openslo/v1"

// source is the metricSource type that stands for breakwater's own counts.
const source = "breakwater"

// Service is an OpenSLO service: who stands behind promises.
type Service struct {
	Name, Title, Description, Owner string
}

// Set is what a file promises.
type Set struct {
	Objectives []slo.Objective
	Services   []Service
}

// Is reports whether d is an OpenSLO document of any version.
func Is(d conf.Document) bool { return strings.HasPrefix(d.APIVersion, "openslo") }

// Parse reads the OpenSLO documents of a file; others are left to their own
// readers. Mistakes go to log, and only a log without errors makes the set good.
func Parse(f conf.File, log *conf.Log) Set {
	var set Set
	seen := map[string]bool{}
	lines := strings.SplitAfter(string(f.Data), "\n")
	for _, d := range conf.Split(f, log) {
		if !Is(d) {
			continue
		}
		m := d.Root.Map()
		version := m.Need("apiVersion")
		if d.APIVersion != Version {
			version.Errorf("must be %s, got %s", Version, d.APIVersion).Hint("breakwater slo import turns it into that")
			continue
		}
		switch kind := m.Need("kind"); d.Kind {
		case "SLO":
			o := objective(m, log)
			o.Text = textOf(lines, d.Root.Line())
			if o.ID != "" && seen[o.ID] {
				d.Root.Map().Get("metadata").Map().Get("name").Errorf("must name one SLO only, got %s again", o.ID)
			}
			seen[o.ID] = true
			set.Objectives = append(set.Objectives, o)
		case "Service":
			set.Services = append(set.Services, service(m))
		case "DataSource", "SLI", "AlertPolicy", "AlertCondition", "AlertNotificationTarget":
			kind.Errorf("must be SLO or Service, got %s", d.Kind).
				Hint("breakwater counts by itself and alerts by its own burn rules; write indicators into the SLO, burn rules into its annotations")
		default:
			kind.Enum("", "SLO", "Service")
		}
	}
	return set
}

// about is what metadata says.
type about struct {
	name, title, owner string
	notes              []conf.Entry // annotations that breakwater reads
}

// meta reads metadata: name, displayName, the label or annotation "owner", and the
// annotations that begin with ours.
func meta(m *conf.Map) about {
	var a about
	md := m.Need("metadata").Map()
	a.name = md.Need("name").Name()
	a.title = md.Get("displayName").Str(a.name)
	for _, field := range []string{"labels", "annotations"} {
		for _, e := range md.Get(field).Entries() {
			if field == "annotations" && strings.HasPrefix(e.Key, prefix) {
				a.notes = append(a.notes, e)
				continue
			}
			values := []string{}
			if e.Value.IsList() { // labels may have several values
				values = e.Value.Strs()
			} else {
				values = append(values, e.Value.Str(""))
			}
			if e.Key == "owner" && a.owner == "" {
				a.owner = strings.Join(values, ", ")
			}
		}
	}
	md.Done()
	return a
}

func service(m *conf.Map) Service {
	a := meta(m)
	s := Service{Name: a.name, Title: a.title, Owner: a.owner}
	spec := m.Get("spec").Map()
	s.Description = spec.Get("description").Str("")
	spec.Done()
	m.Done()
	return s
}

func objective(m *conf.Map, log *conf.Log) slo.Objective {
	before := len(log.Errors())
	a := meta(m)
	o := slo.Objective{ID: a.name, Title: a.title, Owner: a.owner}
	var t slo.Terms
	spec := m.Need("spec").Map()
	spec.Get("description").Str("")
	o.Service = spec.Need("service").Name()
	goal := goal(spec)
	threshold := indicator(spec, &t)
	o.Window = window(spec.Need("timeWindow"), &t)
	method(spec, goal, &t)
	o.TargetPPB = target(goal, threshold, &t)
	for _, note := range a.notes {
		annotate(note, &t)
	}
	if policies := spec.Get("alertPolicies"); len(policies.List()) > 0 {
		policies.Warnf("is not honoured").Hint("alerts follow breakwater's own burn rules: breakwater slo rules; annotation %sburn-rules sets others", prefix)
	}
	spec.Done()
	m.Done()
	o.Terms = shortened(t)
	if len(log.Errors()) == before {
		tell(spec.Node(), o)
	}
	return o
}

// tell reports at n what is wrong with an objective whose fields are each right.
func tell(n conf.Node, o slo.Objective) {
	if err := o.Check(); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			n.Errorf("%s", strings.TrimPrefix(line, slo.ErrTerms.Error()+": "))
		}
	}
}

// shortened is nil for the terms of the plain promise.
func shortened(t slo.Terms) *slo.Terms {
	if isPlain(t) {
		return nil
	}
	return &t
}
