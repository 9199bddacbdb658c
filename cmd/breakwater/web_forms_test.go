package main

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"breakwater/internal/auth"
)

// sent is a form as a browser without script sends it when a button is pressed and nothing was typed.
type sent struct {
	page, method, action string
	values               url.Values
	fields               int // that something can be typed into
}

// formsOf are the forms of a page, once for each button.
func formsOf(t *testing.T, page, body string) (out []sent) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	var walk func(n *html.Node, f *sent, buttons *[]*html.Node)
	walk = func(n *html.Node, f *sent, buttons *[]*html.Node) {
		name := attrOf(n, "name")
		switch {
		case n.Type != html.ElementNode:
		case n.Data == "form":
			if f != nil {
				t.Errorf("%s has a form within a form", page)
			}
			f, buttons = &sent{page: page, method: strings.ToUpper(attrOf(n, "method")), action: attrOf(n, "action"), values: url.Values{}}, &[]*html.Node{}
			for c := n.FirstChild; c != nil; c = c.NextSibling {
				walk(c, f, buttons)
			}
			if len(*buttons) == 0 {
				if f.fields != 1 { // what has one field is sent by Enter, the HTML standard says
					t.Errorf("%s: the form to %s has no button and %d fields", page, f.action, f.fields)
				}
				*buttons = append(*buttons, &html.Node{})
			}
			for _, b := range *buttons {
				one := *f
				one.values = url.Values{}
				for k, v := range f.values {
					one.values[k] = slices.Clone(v)
				}
				if a := attrOf(b, "formaction"); a != "" {
					one.action = a
				}
				if m := attrOf(b, "formmethod"); m != "" {
					one.method = strings.ToUpper(m)
				}
				if n := attrOf(b, "name"); n != "" {
					one.values.Add(n, attrOf(b, "value"))
				}
				if one.method == "" {
					one.method = http.MethodGet
				}
				out = append(out, one)
			}
			return
		case f == nil:
		case n.Data == "button" && attrOf(n, "type") != "button":
			*buttons = append(*buttons, n)
		case n.Data == "textarea" && name != "":
			f.values.Add(name, strings.TrimPrefix(wordsOf(n), "\n"))
			return
		case n.Data == "select" && name != "":
			var all, chosen []string
			for o := range n.Descendants() {
				if o.Type == html.ElementNode && o.Data == "option" {
					v, ok := wordsOf(o), false
					for _, a := range o.Attr {
						if a.Key == "value" {
							v = a.Val
						}
						ok = ok || a.Key == "selected"
					}
					if all = append(all, v); ok {
						chosen = append(chosen, v)
					}
				}
			}
			if v := append(chosen, all...); len(v) > 0 { // what is chosen, else the first
				f.values.Add(name, v[0])
			}
			return
		case n.Data == "input" && name != "":
			kind := attrOf(n, "type")
			if kind != "hidden" {
				f.fields++
			}
			if on := slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "checked" }); kind != "checkbox" && kind != "radio" || on {
				f.values.Add(name, attrOf(n, "value"))
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, f, buttons)
		}
	}
	walk(doc, nil, nil)
	return out
}

func attrOf(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func wordsOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// TestEveryFormWorksWithoutScript sends each form of each page of the router as a browser without script does, as it stands:
// it leads on, or says which of its fields lacks what.
func TestEveryFormWorksWithoutScript(t *testing.T) {
	x := newRounds(t, func(name string) string { return name })
	routes, err := auth.Walk(x.c.routes())
	if err != nil {
		t.Fatal(err)
	}
	pattern := func(method, path string) string {
		best := ""
		for _, r := range routes {
			p := strings.ReplaceAll(regexp.QuoteMeta(parameter.ReplaceAllString(r.Pattern, "PARAMETER")), "PARAMETER", "[^/]+")
			if r.Method == method && (best == "" || !strings.Contains(r.Pattern, "{")) && regexp.MustCompile("^"+p+"$").MatchString(path) {
				best = method + " " + r.Pattern
			}
		}
		return best
	}
	soon := map[string][]string{
		"POST /experiments/start": {"/runs/<run>"}, "POST /gamedays": {"/gamedays/by-hand"}, "POST /gamedays/{id}/approve": {"/gamedays/by-hand"}, "POST /silences": {"/alerts?view=silences"}, "DELETE /api/v1/freezes/{service}": {"/alerts/i-2"},
		"POST /gate/overrides": {"/gate?view=overrides", "/gate?view=overrides"}, // to grant it, and to take that back
	}
	done, said := map[string]bool{}, 0
	look := func(path string) {
		w := x.ask("GET", path, "", "admin", nil)
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			return
		}
		for _, f := range formsOf(t, path, w.Body.String()) {
			to, err := url.Parse(f.action)
			if err != nil || to.Host != "" {
				t.Errorf("%s has a form to %q", path, f.action)
				continue
			}
			route := pattern(f.method, to.EscapedPath())
			if route == "" {
				t.Errorf("%s has a form to %s %s, which is no route", path, f.method, f.action)
				continue
			}
			if done[route] {
				continue
			}
			done[route] = true
			if f.method == http.MethodGet {
				if got := x.ask("GET", to.EscapedPath()+"?"+f.values.Encode(), "", "admin", nil); got.Code != http.StatusOK {
					t.Errorf("%s: the form to %s is answered %d", path, route, got.Code)
				}
				continue
			}
			got := x.ask("POST", f.action, f.values.Encode(), "admin", nil)
			text := got.Body.String()
			switch {
			case got.Code == http.StatusOK:
			case got.Code == http.StatusSeeOther:
				if to := got.Header().Get("Location"); !strings.HasPrefix(to, "/") || x.ask("GET", to, "", "admin", nil).Code != http.StatusOK {
					t.Errorf("%s: the form to %s leads to %q, which is no page", path, route, to)
				}
			case (got.Code == http.StatusBadRequest || got.Code == http.StatusUnprocessableEntity || route == "POST /signin" && got.Code == http.StatusForbidden) && saysWhat(f, text):
				said++
			default:
				t.Errorf("%s: the form to %s as it stands is answered %d: %.400s", path, route, got.Code, plainOr(text))
			}
		}
	}
	for i, c := range changes() {
		if done[c.route] {
			continue // a form has done it
		}
		if c.before != nil {
			c.before(x)
		}
		if w := x.do(c); w.Code != c.want {
			t.Logf("%s: %d, want %d %.200s", c.route, w.Code, c.want, plainOr(w.Body.String()))
		}
		late := []string{"POST /halt", "POST /halt/lift"} // what would stop what comes later
		if c.route == "POST /gamedays" {
			late = append(late, "POST /gamedays/{id}/abort")
		}
		for _, route := range late {
			done[route] = true
		}
		for _, p := range soon[c.route] { // forms of what is over before the end
			look(x.fill(p, url.PathEscape))
		}
		for _, route := range late {
			delete(done, route)
		}
		if i == len(changes())-1 {
			for _, p := range append(x.places(routes), "/gate?view=policy", "/gate?view=policy&policy="+url.QueryEscape(x.known["another"]), "/simulator?view=compare", "/admin/") {
				look(p)
			}
		}
	}
	for key, row := range agreed() { // each route of pages that takes a form was found to have one
		path := strings.TrimPrefix(key, "POST ")
		if path == key || strings.HasPrefix(path, "/api/") || row == open || row == signed || done[key] || strings.HasPrefix(path, "/setup/") /* of a house without anything: TestSetupFromNothing */ {
			continue
		}
		t.Errorf("no page had a form to %s", key)
	}
	if len(done) < 30 || said < 5 {
		t.Errorf("only %d routes take a form, of which %d asked for more", len(done), said)
	}
}

// saysWhat reports whether a refusal names a field, or stands at one.
func saysWhat(f sent, body string) bool {
	for name := range f.values {
		if regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(name) + `:? `).MatchString(plainOr(body)) {
			return true
		}
	}
	return strings.Contains(body, `role="alert"`) || strings.Contains(body, `class="field bad"`) || strings.Contains(body, `class="wrong"`) || strings.Contains(body, `class="note warn`) || strings.Contains(body, `class="mistakes"`)
}
