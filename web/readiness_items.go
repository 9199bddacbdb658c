package web

import (
	"net/url"
	"strings"

	"breakwater/injector/gameday"
	"breakwater/injector/readiness"
	"breakwater/slo"
)

// CheckItem is one of the fifteen questions with what is known of it.
type CheckItem struct {
	ID, Group, Question, Text string
	Anchor                    string // of the row; one on the page
	Mark                      Chip
	Evidence                  *Link
	By                        string
	At                        Time
	ByHand                    bool
	Answer                    string // where the form posts; "": nobody answers it by hand here
	Wrong, Typed              string // of an answer that was refused
}

func stateMark(s readiness.State) Chip {
	switch s {
	case readiness.Yes:
		return Chip{"fg-normal", "s-normal", "yes"}
	case readiness.No:
		return Chip{"fg-emergency", "s-emergency", "no"}
	}
	return Chip{"fg-unknown", "s-nodata", "unknown"}
}

// readyWords is "11 of 15".
func (l lang) readyWords(all []readiness.Answer) string {
	return l.say("%s of %s", slo.Count(int64(readiness.Ready(all))), slo.Count(int64(len(all))))
}

func readyHref(service string) string { return "/readiness/" + url.PathEscape(service) }

func (v view) checkCard(c gameday.Check, open bool) CheckCard {
	return CheckCard{Service: c.Service, Href: readyHref(c.Service), Of: v.readyWords(c.Answers), Open: open, Items: v.checkItems(c.Service, c.Answers)}
}

func (v view) checkItems(service string, all []readiness.Answer) (out []CheckItem) {
	for _, a := range all {
		x := CheckItem{ID: a.ID, Group: v.word(a.Group), Question: v.word(a.Question), Text: v.tell(v.word(a.Text)), Mark: stateMark(a.State), Evidence: v.evidenceLink(service, a.Evidence), By: a.By, ByHand: a.ByHand}
		if !a.At.IsZero() {
			x.At = v.day(a.At)
		}
		out = append(out, x)
	}
	return out
}

// evidenceLink leads from an address of the API to the page that shows the same, or
// to the API where no page does. It never leads to another site.
func (l lang) evidenceLink(service, api string) *Link {
	path, query, _ := strings.Cut(api, "?")
	rest, ours := strings.CutPrefix(path, "/api/v1/")
	if !ours {
		return nil
	}
	q, _ := url.ParseQuery(query) // ours, and what cannot be read leads to the whole list
	of := "?" + url.Values{"service": {service}}.Encode()
	parts := strings.Split(rest, "/")
	switch {
	case parts[0] == "services":
		return &Link{Name: l.say("Service"), Href: serviceHref(service)}
	case parts[0] == "slos" && len(parts) > 1:
		return &Link{Name: l.say("SLO"), Href: "/slos/" + url.PathEscape(parts[1])}
	case parts[0] == "slos":
		return &Link{Name: l.say("SLOs"), Href: "/slos?q=" + url.QueryEscape(service)}
	case parts[0] == "alerts":
		return &Link{Name: l.say("Alerts"), Href: "/alerts" + of}
	case parts[0] == "experiments" && len(parts) > 1:
		return &Link{Name: l.say("Run"), Href: runHref(parts[1])}
	case parts[0] == "experiments":
		return &Link{Name: l.say("Runs"), Href: "/runs"}
	case parts[0] == "gamedays":
		return &Link{Name: l.say("Game days"), Href: "/gamedays"}
	case parts[0] == "findings":
		return &Link{Name: l.say("Findings"), Href: "/findings" + of + "&view=all"}
	}
	link := url.URL{Path: path, RawQuery: q.Encode()}
	return &Link{Name: "API", Href: link.String()}
}
