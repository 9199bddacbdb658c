package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"breakwater/gateway/explain"
	"breakwater/slo"
	"breakwater/slo/alert"
	"breakwater/slo/request"
)

// System is what the pages of an admin need of the machinery.
type System interface {
	// Routes are who is told of incidents; Deliveries what became of it since.
	Routes() []alert.Route
	Deliveries(ctx context.Context, since time.Time) ([]alert.Delivered, error)
	Sizes(ctx context.Context) (Sizes, error)
	// Gateways asks the admin ports that control knows; each answers, or says why not.
	Gateways(ctx context.Context) []GatewayStats
	// Examine are the findings of breakwater doctor.
	Examine(ctx context.Context) []Examined
}

// GatewayStats are the key figures of a gateway's /stats.
type GatewayStats struct {
	Address, Trouble string // Trouble: it did not answer
	Revision         string
	AppliedAt        time.Time
	LastError        string // why a newer document was refused
	Draining         bool
	Connections      int64
	Endpoints, Ready int64
	InFlight         int64
	Dropped          int64 // events that found no room
	Unshipped        int64 // earlier runs that are not wholly shipped
	SpoolError       string
	Faults           int64 // armed now
}

// Examined is one finding of the doctor.
type Examined struct{ Check, State, Text, Do string }

// systemRows of the pages: what is shown looks a day or a week back.
const deliveredFor = 24 * time.Hour

type adminConfig struct {
	adminFrame
	Documents []documentRow
	Revisions []revisionRow
	Refused   []refusedRow
	Was, Now  []Offer
	Diff      []explain.Change
	DiffOf    string
	Same      bool
	Take      map[string]Take
}

type revisionRow struct {
	Name, Env, Gateways, Serving string
	First, Last                  Time
	Chip                         Chip
	DiffHref                     string // against the one before it; "": it is the first
}

type refusedRow struct {
	At             Time
	Gateway, Error string
}

// configs shows what gateways reported of their configurations, and what differs
// between two of them.
func (d *adminDesk) configs(w http.ResponseWriter, r *http.Request) {
	v, q := d.look(r), r.URL.Query()
	p := adminConfig{Take: map[string]Take{"documents": take(r, "documents"), "revisions": take(r, "revisions"), "changes": take(r, "changes")}}
	p.Tabs = adminTabs("Configuration")
	status := http.StatusOK
	reports, err := d.cfg.Configs.Configs(r.Context(), v.now.Add(-request.Kept), 2000)
	if p.Trouble = d.read(v, "The reports of gateways", err); err != nil {
		status = http.StatusServiceUnavailable
	}
	all, refused := request.Revisions(reports)
	was, now := q.Get("was"), q.Get("now")
	if was == "" && now == "" && len(all) > 1 {
		now, was = all[0].Name, all[1].Name
	}
	docs, docSheet, text := d.documents(v, all)
	if text != "" {
		p.Trouble, status = strings.TrimSpace(p.Trouble+" "+text), http.StatusServiceUnavailable
	}
	p.Documents, p.Said = docs, d.rolledSaid(v)
	sheets := []sheet{revisionSheet(all), {name: "changes", columns: []string{"path", "was", "now"}}, docSheet}
	if was != "" && now != "" && err == nil {
		changes, trouble := d.diff(r.Context(), v, was, now)
		p.Diff, p.DiffOf, p.Same = changes, v.say("%s to %s", was, now), trouble == "" && len(changes) == 0
		if trouble != "" {
			p.Trouble, status = trouble, http.StatusNotFound
		}
		for _, c := range changes {
			sheets[1].rows = append(sheets[1].rows, []field{txt(c.Path), txt(c.Was), txt(c.Now)})
		}
	}
	if d.exported(w, v, sheets...) {
		return
	}
	for i, c := range all {
		row := revisionRow{Name: c.Name, Env: c.Env, Gateways: strings.Join(c.Gateways, ", "), Serving: strings.Join(c.Serving, ", "), First: v.short(c.First), Last: v.short(c.Last),
			Chip: Chip{"unknown", "e-log", "earlier"}}
		if len(c.Serving) > 0 {
			row.Chip = Chip{"normal", "s-normal", "served now"}
		}
		for _, before := range all[i+1:] {
			if before.Env == c.Env && before.Name != c.Name {
				row.DiffHref = "/admin/config?" + url.Values{"was": {before.Name}, "now": {c.Name}}.Encode()
				break
			}
		}
		p.Revisions = append(p.Revisions, row)
	}
	p.Was, p.Now = choices(v, all, was, false), choices(v, all, now, false)
	for _, c := range refused[:min(len(refused), 20)] {
		p.Refused = append(p.Refused, refusedRow{v.short(c.At), c.Gateway, c.Error})
	}
	d.show(w, v, status, "admin-config", Page{Title: "Configuration", Crumbs: []Link{{Name: "Admin"}, {Name: "Configuration"}}, Topics: adminTopics}, p)
}

// diff lists what now has otherwise than was.
func (d *adminDesk) diff(ctx context.Context, v view, was, now string) ([]explain.Change, string) {
	changes, _, err := d.changes.get(was+"\x00"+now, v.now, func() ([]explain.Change, error) { return d.compare(ctx, v, was, now) })
	if err != nil {
		return nil, v.say("The configuration %s cannot be compared: no gateway reported its values within 7 days.", short(err.Error(), 40))
	}
	return changes, ""
}

// compare makes the list of diff. Its error is the name of the one that is not known.
func (d *adminDesk) compare(ctx context.Context, v view, was, now string) ([]explain.Change, error) {
	var engines [2]*explain.Engine
	for i, name := range [2]string{was, now} {
		e, err := d.engine(ctx, v.now, name)
		if err != nil {
			d.cfg.Log.Warn("a configuration cannot be compared", "revision", name, "err", err)
			return nil, errors.New(name)
		}
		engines[i] = e
	}
	return explain.Changes(engines[0], engines[1]), nil
}

func revisionSheet(all []request.Revision) sheet {
	s := sheet{name: "revisions", columns: []string{"env", "revision", "hash", "first_reported", "last_reported", "gateways", "served_by"}}
	for _, c := range all {
		s.rows = append(s.rows, []field{txt(c.Env), txt(c.Name), txt(c.Hash), instant(c.First), instant(c.Last), txt(strings.Join(c.Gateways, " ")), txt(strings.Join(c.Serving, " "))})
	}
	return s
}

type adminDeliveries struct {
	adminFrame
	Rows []deliveryRow
	Take Take
}

type deliveryRow struct {
	Name, Type, Address, Of string
	Chip                    Chip
	Sent, GaveUp, Waiting   string
	Last, Arrived           Time
	Text                    string
}

// deliveries shows who is told of incidents and what became of it. The address of a
// Slack webhook is its secret: hosts are shown, and never a path.
func (d *adminDesk) deliveries(w http.ResponseWriter, r *http.Request) {
	v := d.look(r)
	p := adminDeliveries{Take: take(r, "deliveries")}
	p.Tabs = adminTabs("Deliveries")
	status := http.StatusOK
	list, err := d.a.System.Deliveries(r.Context(), v.now.Add(-deliveredFor))
	if p.Trouble = d.read(v, "What became of messages", err); err != nil {
		status = http.StatusServiceUnavailable
	}
	known := map[string]alert.Delivered{}
	for _, x := range list {
		known[x.Receiver] = x
	}
	s := sheet{name: "deliveries", columns: []string{"receiver", "type", "host", "state", "sent", "gave_up", "waiting", "last_attempt", "last_arrived", "text"}}
	add := func(row deliveryRow, x alert.Delivered) {
		p.Rows = append(p.Rows, row)
		s.rows = append(s.rows, []field{txt(row.Name), txt(row.Type), txt(row.Address), txt(row.Chip.Text), num(x.Sent), num(x.GaveUp), num(x.Waiting), instant(x.LastAt), instant(x.SentAt), txt(x.Text)})
	}
	for _, route := range d.a.System.Routes() {
		for _, to := range route.Receivers {
			name := route.Name + "/" + to.Name
			x := known[name]
			delete(known, name)
			row := v.deliveryRow(name, x)
			row.Type, row.Address, row.Of = string(to.Type), v.word(hostOf(to)), scopeOf(route.Services)
			add(row, x)
		}
	}
	for _, x := range list { // of documents that are gone
		if _, left := known[x.Receiver]; left {
			row := v.deliveryRow(x.Receiver, x)
			row.Type, row.Of = v.say("no document names it any more"), "–"
			add(row, x)
		}
	}
	if d.exported(w, v, s) {
		return
	}
	d.show(w, v, status, "admin-deliveries", Page{Title: "Deliveries", Crumbs: []Link{{Name: "Admin"}, {Name: "Deliveries"}}, Topics: adminTopics}, p)
}

func (v view) deliveryRow(name string, x alert.Delivered) deliveryRow {
	row := deliveryRow{Name: name, Sent: slo.Count(x.Sent), GaveUp: slo.Count(x.GaveUp), Waiting: slo.Count(x.Waiting), Text: x.Text, Chip: Chip{"nodata", "s-nodata", "not used"}}
	if !x.LastAt.IsZero() {
		row.Last = v.short(x.LastAt)
	}
	if !x.SentAt.IsZero() {
		row.Arrived = v.short(x.SentAt)
	}
	switch {
	case x.Outcome == "gave_up":
		row.Chip = Chip{"emergency", "s-emergency", "gave up"}
	case x.Outcome == "failed":
		row.Chip = Chip{"warn", "s-warn", "failed, tried again"}
	case x.Outcome == "sent" || x.Sent > 0:
		row.Chip = Chip{"normal", "s-normal", "arrived"}
	}
	return row
}

// hostOf is all of an address that is shown.
func hostOf(to alert.Receiver) string {
	if to.URLFile != "" {
		return phrase("in a file")
	}
	u, err := url.Parse(to.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

type adminDoctor struct {
	adminFrame
	Sub      string
	Findings []examinedRow
	Gateways []gatewayRow
	Take     map[string]Take
}

type examinedRow struct {
	Check, Text, Do string
	Chip            Chip
}

type gatewayRow struct {
	Address, Revision, Text          string
	Since                            Time
	Chip                             Chip
	Connections, Endpoints, InFlight string
	Dropped, Unshipped, Faults       string
}

// doctor shows the findings of breakwater doctor, and the key figures of gateways.
func (d *adminDesk) doctor(w http.ResponseWriter, r *http.Request) {
	v := d.look(r)
	ctx, cancel := context.WithTimeout(r.Context(), examineFor)
	defer cancel()
	p := adminDoctor{Take: map[string]Take{"findings": take(r, "findings"), "gateways": take(r, "gateways")}}
	p.Tabs = adminTabs("Health")
	found, gateways := d.a.System.Examine(ctx), d.a.System.Gateways(ctx)
	findings := sheet{name: "findings", columns: []string{"check", "state", "text", "do"}}
	counts := map[string]int{}
	for _, f := range found {
		counts[f.State]++
		p.Findings = append(p.Findings, examinedRow{f.Check, v.tell(f.Text), v.tell(f.Do), examinedChip(f.State)})
		findings.rows = append(findings.rows, []field{txt(f.Check), txt(f.State), txt(f.Text), txt(f.Do)})
	}
	var parts []string
	for _, state := range []string{"fail", "warn", "ok", "skip"} {
		if counts[state] > 0 {
			parts = append(parts, v.say("%s %s", slo.Count(int64(counts[state])), v.word(examinedChip(state).Text)))
		}
	}
	p.Sub = v.say("%s.", v.list(parts...))
	stats := sheet{name: "gateways", columns: []string{"address", "revision", "applied_at", "trouble", "draining", "connections", "endpoints", "ready", "in_flight", "events_dropped", "unshipped_runs", "faults_armed"}}
	for _, g := range gateways {
		p.Gateways = append(p.Gateways, v.gatewayRow(g))
		stats.rows = append(stats.rows, []field{txt(g.Address), txt(g.Revision), instant(g.AppliedAt), txt(cmp.Or(g.Trouble, g.LastError, g.SpoolError)), txt(fmt.Sprint(g.Draining)),
			num(g.Connections), num(g.Endpoints), num(g.Ready), num(g.InFlight), num(g.Dropped), num(g.Unshipped), num(g.Faults)})
	}
	if d.exported(w, v, findings, stats) {
		return
	}
	d.show(w, v, http.StatusOK, "admin-doctor", Page{Title: "Health", Crumbs: []Link{{Name: "Admin"}, {Name: "Health"}}, Topics: adminTopics}, p)
}

// examineFor is how long one look may take: what does not answer by then is away.
const examineFor = 3 * time.Second

func examinedChip(state string) Chip {
	switch state {
	case "ok":
		return Chip{"normal", "s-normal", "well"}
	case "warn":
		return Chip{"warn", "s-warn", "doubtful"}
	case "fail":
		return Chip{"emergency", "s-emergency", "broken"}
	}
	return Chip{"unknown", "s-unknown", "passed over"}
}

func (v view) gatewayRow(g GatewayStats) gatewayRow {
	row := gatewayRow{Address: g.Address, Revision: g.Revision, Chip: Chip{"normal", "s-normal", "serves"}}
	if g.Trouble != "" {
		row.Chip, row.Text = Chip{"emergency", "s-emergency", "no answer"}, g.Trouble
		return row
	}
	switch {
	case g.Revision == "":
		row.Chip, row.Text = Chip{"emergency", "s-emergency", "serves nothing"}, g.LastError
	case g.Draining:
		row.Chip = Chip{"unknown", "s-unknown", "draining"}
	case g.LastError != "":
		row.Chip, row.Text = Chip{"warn", "s-warn", "refused a newer one"}, g.LastError
	case g.SpoolError != "":
		row.Text = g.SpoolError
	}
	if !g.AppliedAt.IsZero() {
		row.Since = v.short(g.AppliedAt)
	}
	row.Connections, row.InFlight, row.Dropped, row.Unshipped, row.Faults = slo.Count(g.Connections), slo.Count(g.InFlight), slo.Count(g.Dropped), slo.Count(g.Unshipped), slo.Count(g.Faults)
	row.Endpoints = v.say("%s of %s", slo.Count(g.Ready), slo.Count(g.Endpoints))
	return row
}
