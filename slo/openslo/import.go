package openslo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// Imported is a promise that came from elsewhere, with what its document said
// beside it.
type Imported struct {
	Objective   slo.Objective
	Description string
	Labels      []Label
	Annotations []Label
}

// Document writes i as an OpenSLO document that Parse reads.
func (i Imported) Document() string {
	return export(i.Objective, i.Description, i.Labels, i.Annotations)
}

// Import is what files of other tools promise.
type Import struct {
	Objectives []Imported
	Services   []Service
	Documents  int // that some reader here knows
}

// Codes of what is told while importing.
const (
	codeDropped = "W-DROPPED" // not carried over
	codeTaken   = "W-TAKEN"   // carried over as something a little different
)

// importer reads the documents of an import. What one document says may concern
// another: alert policies, window catalogues.
type importer struct {
	log      *conf.Log
	out      Import
	policies map[string][]condition // by name; nil where refused
	windows  map[time.Duration][]slo.Pair
	steps    []slo.Pair // of slo-generator's policy
	seen     map[string]bool
	limits   map[string]slo.Objective // the first with a latency limit, by service
}

// condition is a burn condition before the window of an objective makes it a rule.
type condition struct {
	severity  string
	threshold int64 // rate, in thousandths
	long      time.Duration
}

// Read takes what files hold for OpenSLO (v1alpha, v1, v2alpha), Sloth, Pyrra and
// slo-generator. Each object with a mistake is refused alone; whatever is not
// carried over is a warning at its place.
func Read(files []conf.File, log *conf.Log) Import {
	im := &importer{log: log, policies: map[string][]condition{}, windows: map[time.Duration][]slo.Pair{}, seen: map[string]bool{}, limits: map[string]slo.Objective{}}
	type object struct {
		m    *conf.Map
		read func(*conf.Map)
	}
	var list []object
	for _, f := range files {
		for _, d := range conf.Split(f, log) {
			roots := []conf.Node{d.Root}
			if d.Root.IsList() {
				roots = d.Root.List()
			}
			for _, root := range roots {
				m := root.Map()
				read, first := im.reader(m)
				switch {
				case read == nil:
					root.Errorf("must be a document of OpenSLO, Sloth, Pyrra or slo-generator, got apiVersion %s, kind %s", m.Get("apiVersion").Got(), m.Get("kind").Got())
				case first: // others refer to it
					im.out.Documents++
					read(m)
				default:
					im.out.Documents++
					list = append(list, object{m, read})
				}
			}
		}
	}
	for _, o := range list {
		o.read(o.m)
	}
	return im.out
}

// reader picks who reads a document; first, whether others may refer to it.
func (im *importer) reader(m *conf.Map) (read func(*conf.Map), first bool) {
	word := func(key string) string { return strings.Trim(m.Get(key).Got(), `"`) }
	version, kind := word("apiVersion"), word("kind")
	switch {
	case version == Version || version == "openslo.com/v2alpha" || version == "openslo/v2alpha" || version == "openslo/v1alpha":
		m.Get("apiVersion")
		switch kind {
		case "SLO":
			if version == "openslo/v1alpha" {
				return im.alphaSLO, false
			}
			return im.openSLO, false
		case "Service":
			return im.service, true
		case "AlertPolicy":
			return im.policy, true
		case "AlertCondition":
			return im.condition, true
		case "DataSource", "SLI", "AlertNotificationTarget":
			return func(m *conf.Map) {
				m.Node().Warnf("%s is not carried over: breakwater counts and alerts by itself", kind).Coded(codeDropped)
			}, true
		}
	case version == "sloth.slok.dev/v1" && kind == "PrometheusServiceLevel":
		return im.slothCRD, false
	case version == "sloth.slok.dev/v1" && kind == "AlertWindows", word("version") == "alertWindows/v1":
		return im.alertWindows, true
	case word("version") == "prometheus/v1":
		return im.sloth, false
	case version == "pyrra.dev/v1alpha1" && kind == "ServiceLevelObjective":
		return im.pyrra, false
	case strings.HasPrefix(version, "sre.google.com/") && kind == "ServiceLevelObjective":
		return im.generatorV2, false
	case m.Get("slo_target").Present():
		return im.generatorV1, false
	case m.Get("error_budget_policies").Present():
		return im.generatorConfig, true
	}
	return nil, false
}

// dropped tells of a field that is there and not carried over.
func dropped(n conf.Node, why string, args ...any) {
	if n.Present() && n.Got() != "nothing" {
		n.Warnf("is not carried over: "+why, args...).Coded(codeDropped)
	}
}

// alone runs read and takes what it returns, unless it reported a mistake.
func (im *importer) alone(at conf.Node, read func() Imported) {
	before := len(im.log.Errors())
	i := read()
	if len(im.log.Errors()) > before {
		return
	}
	i.Objective.Terms = simplified(i.Objective.Terms)
	tell(at, i.Objective)
	o := i.Objective
	if im.seen[o.ID] {
		at.Errorf("must have a name of its own, got %s again", o.ID)
	}
	// One exact counter a service: two limits cannot both be kept.
	if l := o.Limit(); l > 0 {
		if first, ok := im.limits[o.Service]; ok && first.Limit() != l {
			at.Errorf("must have the latency limit %s of %s, since a service counts by one limit, got %s", first.Limit(), first.ID, l)
		}
	}
	if len(im.log.Errors()) > before {
		return
	}
	im.seen[o.ID] = true
	if _, ok := im.limits[o.Service]; !ok && o.Limit() > 0 {
		im.limits[o.Service] = o
	}
	im.out.Objectives = append(im.out.Objectives, i)
}

func simplified(t *slo.Terms) *slo.Terms {
	if t == nil {
		return nil
	}
	return shortened(*t)
}

// id makes a name of ours from one of theirs: they allow capitals, and some join
// the service to it.
func id(n conf.Node, parts ...string) string {
	whole := strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "-")
	lower := strings.ToLower(whole)
	if !isName(lower) {
		n.Errorf("must be a name of letters, digits, '-', '_' and '.', at most 63 long, got %q", whole)
		return ""
	}
	if lower != whole {
		n.Warnf("is taken as %s: names become labels and keys, and have no capitals here", lower).Coded(codeTaken)
	}
	return lower
}

func isName(s string) bool {
	if s == "" || len(s) > 63 || strings.Trim(s[:1]+s[len(s)-1:], "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// word is a scalar of any kind as text: labels of other tools hold numbers and
// booleans.
func word(n conf.Node) string {
	if !n.Present() || n.IsMap() || n.IsList() || n.Got() == "nothing" {
		return ""
	}
	return n.Text()
}

// labels reads a map of labels, whose values may be lists.
func labels(n conf.Node) []Label {
	var out []Label
	if !n.IsMap() {
		return nil
	}
	for _, e := range n.Entries() {
		l := Label{Key: e.Key}
		if e.Value.IsList() {
			for _, v := range e.Value.List() {
				l.Values = append(l.Values, word(v))
			}
		} else {
			l.Values = []string{word(e.Value)}
		}
		l.Values = slices.DeleteFunc(l.Values, func(v string) bool { return strings.TrimSpace(v) == "" })
		if len(l.Values) == 0 {
			dropped(e.Value, "it is empty")
			continue
		}
		out = append(out, l)
	}
	return out
}

// ownerOf finds who stands behind a promise among its labels.
func ownerOf(all []Label) string {
	for _, key := range []string{"owner", "team"} {
		for _, l := range all {
			if l.Key == key {
				return strings.Join(l.Values, ", ")
			}
		}
	}
	return ""
}

// titled gives a promise without a title its description as one.
func titled(title, description, id string) string {
	switch {
	case title != "":
		return title
	case description != "" && len(description) <= 120 && !strings.Contains(description, "\n"):
		return description
	}
	return id
}

// Summary says in one line what an import brought.
func (i Import) Summary(log *conf.Log) string {
	return fmt.Sprintf("%d documents read: %d SLOs and %d services taken, %d mistakes, %d remarks",
		i.Documents, len(i.Objectives), len(i.Services), len(log.Errors()), len(log.Warnings()))
}
