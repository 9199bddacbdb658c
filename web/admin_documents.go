package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/slo"
	"breakwater/slo/request"
)

// Documents are the revisions of the documents that control reads.
type Documents interface {
	// Revisions lists them, the newest first.
	Revisions(ctx context.Context) ([]DocumentRevision, error)
	// Compare tells what putting one back would change now.
	Compare(ctx context.Context, number int64) (DocumentChange, error)
	// RollBack puts one back and returns the revision that this made, or the one
	// that is there already. seen is the newest one that actor has seen; 0: any.
	RollBack(ctx context.Context, actor string, number, seen int64, reason string) (DocumentRevision, error)
}

// DocumentRevision is one state of the documents, without their texts.
type DocumentRevision struct {
	Number   int64     `json:"number"`
	At       time.Time `json:"at"`
	Place    string    `json:"place"`
	Hash     string    `json:"hash"`
	How      string    `json:"how"` // found, written or rolled_back
	By       string    `json:"by"`
	Reason   string    `json:"reason,omitempty"`
	Restores int64     `json:"restores,omitempty"`
	Gateway  string    `json:"gateway_revision,omitempty"` // what gateways call it; "": they do not take it
	Mistakes []string  `json:"mistakes,omitempty"`         // at file:line:col
	InPlace  bool      `json:"in_place,omitempty"`         // the newest of those this control reads
}

// DocumentChange is what putting a revision back would change.
type DocumentChange struct {
	Revision DocumentRevision `json:"revision"`
	Place    string           `json:"place"`
	Newest   int64            `json:"newest"`
	Files    []FileChange     `json:"files"` // nil: it is what is there
	Mistakes []string         `json:"mistakes,omitempty"`
	Closed   string           `json:"closed,omitempty"` // why control cannot write there
}

// FileChange is a file that is added, removed or changed.
type FileChange struct {
	Name    string     `json:"name"`
	What    string     `json:"what"`
	Added   int        `json:"added"`
	Removed int        `json:"removed"`
	Lines   []DiffLine `json:"lines"`
}

// DiffLine is one line: kept " ", added "+", removed "-", or "…" for some left out.
type DiffLine struct {
	Mark string `json:"mark"`
	Text string `json:"text,omitempty"`
}

// DocumentTrouble is why nothing was put back.
type DocumentTrouble struct {
	Status     int
	Code, Text string
	Mistakes   []string
}

func (t *DocumentTrouble) Error() string {
	return strings.Join(append([]string{t.Text}, t.Mistakes...), "\n")
}

// ReasonRule is what a reason for a roll back must be; "": it is good.
func ReasonRule(reason string) string {
	if n := len(strings.TrimSpace(reason)); n < 10 || n > 500 {
		return fmt.Sprintf("The reason must have 10 to 500 bytes, got %d.", n)
	}
	return ""
}

type documentRow struct {
	Number, What, Reason, By, Href, Serving, Gateway string
	At                                               Time
	Chip                                             Chip
}

// documentRows are the revisions as the page lists them; serving says which gateways
// serve which configuration.
func (v view) documentRows(list []DocumentRevision, served []request.Revision) ([]documentRow, sheet) {
	s := sheet{name: "documents", columns: []string{"revision", "at", "place", "how", "by", "restores", "reason", "gateway_revision", "served_by", "mistakes"}}
	serving := map[string][]string{}
	for _, c := range served {
		serving[c.Name] = append(serving[c.Name], c.Serving...)
	}
	var rows []documentRow
	for _, r := range list {
		row := documentRow{Number: itoa(r.Number), By: r.By, At: v.short(r.At), Reason: r.Reason, Gateway: r.Gateway, Serving: strings.Join(serving[r.Gateway], ", "), Chip: Chip{"unknown", "e-log", "earlier"}}
		switch r.How {
		case "written":
			row.What = v.say("Written by a page")
		case "rolled_back":
			row.What = v.say("Roll back to %s", itoa(r.Restores))
		default:
			row.What = v.say("Found on disk")
		}
		if !r.InPlace {
			row.Href = "/admin/config/" + row.Number
		}
		switch {
		case r.InPlace && len(r.Mistakes) == 0:
			row.Chip = Chip{"normal", "s-normal", "in place"}
		case r.InPlace:
			row.Chip = Chip{"emergency", "s-emergency", "in place, has mistakes"}
		case len(r.Mistakes) > 0:
			row.Chip = Chip{"emergency", "s-emergency", "has mistakes"}
		}
		rows = append(rows, row)
		restores := field{}
		if r.Restores != 0 {
			restores = num(r.Restores)
		}
		s.rows = append(s.rows, []field{num(r.Number), instant(r.At), txt(r.Place), txt(r.How), txt(r.By), restores, txt(r.Reason), txt(r.Gateway), txt(row.Serving), txt(strings.Join(r.Mistakes, "\n"))})
	}
	return rows, s
}

type adminRollback struct {
	adminFrame
	Number, Newest string
	By, Reason     string
	Made           Time
	Change         DocumentChange
	Same           bool
	Mistakes       []string
	Take           Take
}

// rollback shows what putting a revision back would change, and the form that does it.
func (d *adminDesk) rollback(w http.ResponseWriter, r *http.Request) {
	d.showRollback(w, r, http.StatusOK, adminRollback{})
}

func (d *adminDesk) showRollback(w http.ResponseWriter, r *http.Request, status int, p adminRollback) {
	v := d.look(r)
	number, err := strconv.ParseInt(chi.URLParam(r, "number"), 10, 64)
	if err != nil {
		d.notFound(w, r)
		return
	}
	p.Tabs, p.Number = adminTabs("Configuration"), itoa(number)
	change, err := d.a.Documents.Compare(r.Context(), number)
	if err != nil {
		status, p.Trouble, _ = d.documentTrouble(err)
		d.trouble(w, v, status, v.say("Revision %s", p.Number), p.Trouble)
		return
	}
	s := sheet{name: "changes", columns: []string{"file", "what", "mark", "line"}}
	for _, f := range change.Files {
		for _, l := range f.Lines {
			s.rows = append(s.rows, []field{txt(f.Name), txt(f.What), txt(l.Mark), txt(l.Text)})
		}
	}
	if d.exported(w, v, s) {
		return
	}
	p.Change, p.Newest, p.By, p.Made, p.Same, p.Take = change, itoa(change.Newest), change.Revision.By, v.dated(change.Revision.At), len(change.Files) == 0, take(r, "changes")
	if p.Mistakes == nil {
		p.Mistakes = change.Mistakes
	}
	title := v.say("Roll back to %s", p.Number)
	d.show(w, v, status, "admin-rollback", Page{Title: title, Crumbs: []Link{{Name: "Admin"}, {Name: "Configuration", Href: "/admin/config"}, {Name: title}}, Topics: adminTopics}, p)
}

// rollBack does it. A second click finds it done, which is no mistake.
func (d *adminDesk) rollBack(w http.ResponseWriter, r *http.Request) {
	var p adminRollback
	p.Reason = r.PostFormValue("reason")
	number, err := strconv.ParseInt(chi.URLParam(r, "number"), 10, 64)
	if err != nil {
		d.notFound(w, r)
		return
	}
	if p.Trouble = ReasonRule(p.Reason); p.Trouble != "" {
		d.showRollback(w, r, http.StatusUnprocessableEntity, p)
		return
	}
	seen, err := strconv.ParseInt(r.PostFormValue("seen"), 10, 64)
	if err != nil || seen < 1 {
		p.Trouble = d.look(r).say("Look at what changes first, and roll back from there.")
		d.showRollback(w, r, http.StatusUnprocessableEntity, p)
		return
	}
	made, err := d.a.Documents.RollBack(r.Context(), d.cfg.Actor(r), number, seen, strings.TrimSpace(p.Reason))
	if err != nil {
		var status int
		status, p.Trouble, p.Mistakes = d.documentTrouble(err)
		d.showRollback(w, r, status, p)
		return
	}
	leave(w, r, "/admin/config?rolled="+itoa(made.Number))
}

func (d *adminDesk) documentTrouble(err error) (status int, text string, mistakes []string) {
	if t, ok := errors.AsType[*DocumentTrouble](err); ok {
		return t.Status, t.Text, t.Mistakes
	}
	d.cfg.Log.Error("documents cannot be put back", "err", err)
	return http.StatusServiceUnavailable, phrase("The revisions of the documents cannot be read at the moment."), nil
}

// documents are the revisions as the page of configurations shows them.
func (d *adminDesk) documents(v view, served []request.Revision) ([]documentRow, sheet, string) {
	var list []DocumentRevision
	if d.a.Documents != nil {
		var err error
		if list, err = d.a.Documents.Revisions(v.r.Context()); err != nil {
			return nil, sheet{}, d.read(v, phrase("The revisions of the documents"), err)
		}
	}
	rows, s := v.documentRows(list, served)
	return rows, s, ""
}

// rolledSaid is what the page says after a roll back.
func (d *adminDesk) rolledSaid(v view) string {
	rolled := v.r.URL.Query().Get("rolled")
	if rolled == "" || d.a.Documents == nil {
		return ""
	}
	list, err := d.a.Documents.Revisions(v.r.Context())
	if err != nil {
		return ""
	}
	return v.rolledWords(list, rolled)
}

// rolledWords tell what a roll back did, after it.
func (v view) rolledWords(list []DocumentRevision, rolled string) string {
	number, err := strconv.ParseInt(rolled, 10, 64)
	if err != nil {
		return ""
	}
	for _, r := range list {
		if r.Number == number && r.How == "rolled_back" {
			return v.say("Revision %s is put back, as revision %s. Gateways that follow these files take it within seconds.", slo.Count(r.Restores), slo.Count(number))
		}
		if r.Number == number {
			return v.say("Nothing was to do: revision %s has the same documents, and is in place.", slo.Count(number))
		}
	}
	return ""
}
