package web

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A form that is refused stands on its page again, with the reason beside it and every
// word that was written still in its fields; the address it was sent to answers a question
// with the same page.
func TestRefusedFormsKeepWhatWasWritten(t *testing.T) {
	const wild = `refuse <b>"this"</b> & that`
	for name, f := range map[string]struct {
		path, head string
		form       url.Values
		status     int
		why        string
		kept       []string
	}{
		"a finding is said to be mended": {"/findings/f-0000000003/close", "", url.Values{"note": {wild}}, 409, "another one than was agreed to", []string{">" + html.EscapeString(wild) + "</textarea>"}},
		"a risk is answered for":         {"/findings/f-0000000003/accept", "", url.Values{"reason": {wild}, "days": {"180"}}, 409, "another one than was agreed to", []string{">" + html.EscapeString(wild) + "</textarea>", `<option value="180" selected>`}},
		"a risk without an end":          {"/findings/f-0000000003/accept", "", url.Values{"reason": {wild}, "days": {"9999"}}, 422, "got 9999", []string{">" + html.EscapeString(wild) + "</textarea>"}},
		"a silence for ever":             {"/silences", "Alerts", url.Values{"service": {"points"}, "minutes": {"999999"}, "severity": {"freeze"}, "reason": {wild}}, 422, "got 999999", []string{`<option selected>points`, `<option value="freeze" selected>`, `value="` + html.EscapeString(wild) + `"`}},
		"a silence nobody may have":      {"/silences", "Alerts", url.Values{"service": {"points"}, "minutes": {"240"}, "reason": {wild}}, 409, "the incident is over", []string{`<option selected>points`, `<option value="240" selected>`, `value="` + html.EscapeString(wild) + `"`}},
		"an alert is taken in hand":      {"/alerts/i-207/ack", "", url.Values{"note": {wild}}, 409, "the incident is over", []string{`value="` + html.EscapeString(wild) + `"`}},
		"an answer":                      {"/readiness/order", "Readiness of order", url.Values{"item": {"limits"}, "yes": {"yes"}, "evidence": {wild}}, 409, "another one than was agreed to", []string{`<details class="data" open>`, `value="` + html.EscapeString(wild) + `"`}},
		"a note":                         {"/gamedays/g-by-hand-1/notes", "", url.Values{"kind": {"note"}, "text": {wild}}, 409, "another one than was agreed to", []string{`value="` + html.EscapeString(wild) + `"`}},
		"what was learned":               {"/gamedays/g-by-hand-1/notes", "", url.Values{"kind": {"debrief"}, "text": {wild}}, 409, "another one than was agreed to", []string{">" + html.EscapeString(wild) + "</textarea>"}},
		"an override for two days":       {"/gate/overrides", "Gate and freeze", url.Values{"service": {"coupon"}, "env": {"production"}, "ref": {"9f2c"}, "reason": {wild}, "ticket": {"INC-1"}, "minutes": {"2880"}, "uses": {"3"}}, 422, "1 minute to 24 hours", []string{`<option selected>coupon`, `value="production"`, `value="9f2c"`, `value="` + html.EscapeString(wild) + `"`, `value="INC-1"`, `max="20" value="3"`}},
		"an override ever so often":      {"/gate/overrides", "Gate and freeze", url.Values{"service": {"coupon"}, "minutes": {"240"}, "uses": {"many"}}, 422, "must be a number", []string{`<option value="240" selected>`, `value="many"`}},
	} {
		t.Run(name, func(t *testing.T) {
			h := shop(noon)
			h.mayLift = true
			handler := h.server(t).Handler()
			r := httptest.NewRequest(http.MethodPost, "http://localhost:8081"+f.path, strings.NewReader(f.form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			_, body, _ := strings.Cut(w.Body.String(), `<bw-live class="app"`)
			if w.Code != f.status || strings.Contains(body, wild) || !strings.Contains(body, `data-topics="nothing"`) {
				t.Fatalf("%d, want %d, and markup stays text:\n%.2000s", w.Code, f.status, body)
			}
			_, alert, found := strings.Cut(body, `role="alert"`)
			if alert, _, _ = strings.Cut(alert, "</p>"); !found || !strings.Contains(strings.ToLower(alert), strings.ToLower(f.why)) {
				t.Errorf("%q is not told as an alert: %q", f.why, alert)
			}
			for _, part := range f.kept {
				if !strings.Contains(body, part) {
					t.Errorf("%s is not in the page any more", part)
				}
			}
			status, _, again := get(t, handler, f.path)
			if status != 200 || strings.Contains(again, `role="alert"`) {
				t.Errorf("the address of the form answers %d", status)
			}
			if f.head != "" && (!strings.Contains(body, "<h1>"+f.head+"</h1>") || !strings.Contains(again, "<h1>"+f.head+"</h1>")) {
				t.Errorf("the page is not that of %s", f.head)
			}
		})
	}
}
