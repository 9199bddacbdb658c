package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html"
)

// own is the text of n without that of the elements in it.
func (n node) own() string {
	var out strings.Builder
	if n.Node != nil {
		for c := range n.ChildNodes() {
			if c.Type == html.TextNode {
				out.WriteString(c.Data)
			}
		}
	}
	return strings.TrimSpace(blanks.ReplaceAllString(out.String(), " "))
}

// lists are the pages that have many promises, and their files.
func (s *surfaces) lists() {
	for _, format := range []string{"csv", "json"} {
		for _, row := range lines(s.t, s.get("/slos?format="+format), format) {
			p := promise{row["id"], row["env"]}
			got := said{"state": row["level"], "remaining_ppm": row["remaining_ppm"], "burn_milli 1h": row["burn_1h_milli"], "empty_at": row["empty_at"], "thaw_at": row["thaw_at"], "target_ppb": row["target_ppb"]}
			if s.want[p]["no_data"] != "true" {
				got["allowed_events"], got["bad_events"], got["valid_events"] = row["allowed"], row["bad_events"], row["valid_events"]
			}
			s.same("/slos as "+format, p, got)
		}
		n := 0
		for _, row := range lines(s.t, s.get("/?format="+format), format) {
			p := promise{row["objective"], row["env"]}
			got := said{"remaining_ppm": row["remaining_ppm"], "data_until": row["data_until"]}
			if s.want[p]["no_data"] != "true" {
				for _, name := range []string{"remaining_events", "allowed_events", "valid_events", "good_events", "bad_events"} {
					got[name] = row[name]
				}
			}
			if row["state"] != stateShown(s.want[p]) {
				s.t.Errorf("/ as %s: %s is %s, want %s", format, p.id, row["state"], stateShown(s.want[p]))
			}
			s.same("/ as "+format, p, got)
			n++
		}
		if n != len(s.want) {
			s.t.Errorf("/ as %s has %d promises, want %d", format, n, len(s.want))
		}
	}
	rows := parsed(s.t, s.get("/slos")).one("main").all("tr")
	for _, row := range rows[1:] {
		u, err := url.Parse(row.one("a.any").attr("href"))
		if err != nil {
			s.t.Fatal(err)
		}
		cells := row.all("td")
		p := promise{strings.TrimPrefix(u.Path, "/slos/"), u.Query().Get("env")}
		got := said{"left": cells[3].own(), "burn 1h": cells[4].says()}
		if s.want[p]["no_data"] == "true" {
			got["left"] = map[bool]string{true: "no data", false: got["left"]}[got["left"] == "–"]
		}
		if chip := row.one(".chip").says(); chip != stateShown(s.want[p]) {
			s.t.Errorf("/slos: %s is %s, want %s", p.id, chip, stateShown(s.want[p]))
		}
		s.same("/slos", p, got)
	}
	if len(rows)-1 != len(s.want) {
		s.t.Errorf("/slos has %d rows, want %d", len(rows)-1, len(s.want))
	}
}

// page is everything on the page of one objective.
func (s *surfaces) page(p promise) {
	path := query("/slos/"+p.id, "env", p.env)
	if p.env == "" {
		path = "/slos/" + p.id
	}
	want := s.want[p]
	page := parsed(s.t, s.get(path)).one("main")
	s.same(path, p, said{"left": page.one("#budget", ".huge").says()})
	if chip := page.one(".head", ".chip").says(); chip != stateShown(want) {
		s.t.Errorf("%s: %s, want %s", path, chip, stateShown(want))
	}
	api := exact(s.t, s.get("/api/v1"+path)).(map[string]any)
	unit := api["budget"].(map[string]any)["unit"]
	told := page.one("#budget").says()
	for _, name := range []string{"allowed_events", "remaining_events"} {
		n := new(big.Int)
		if _, ok := n.SetString(want[name], 10); unit == "requests" && want["no_data"] != "true" && ok {
			if figure := grouped(n.Abs(n).Int64()); !strings.Contains(told, figure) {
				s.t.Errorf("%s: %q does not say %s %s", path, told, name, figure)
			}
		}
	}
	for _, fact := range page.one("#budget").all("div.fact") {
		switch value := fact.one("dd").own(); fact.one("dt").says() {
		case "Good (first try)":
			if want["no_data"] != "true" {
				s.same(path+" Good", p, said{"sli": value})
			}
		case "Burn, last hour":
			if value != "–" {
				s.same(path+" Burn", p, said{"burn 1h": value})
			}
		}
	}
	// Each explained number, with its integers.
	rows := page.one("#explain").all("tr")[1:]
	lines := api["explain"].([]any)
	if len(rows) != len(lines) {
		s.t.Errorf("%s explains %d numbers, the API %d", path, len(rows), len(lines))
		return
	}
	for i, x := range lines {
		line, cells := x.(map[string]any), rows[i].all("td")
		s.compared++
		if id, value, formula := rows[i].attr("id"), cells[0].says(), cells[1].says(); id != "x-"+text(line["id"]) || value != text(line["value"]) || formula != text(line["formula"]) {
			s.t.Errorf("%s explains %s %s %s, the API %v", path, id, value, formula, line)
		}
		name, ok := map[string]string{"sli": "sli", "spent": "spent", "remaining": "left"}[text(line["id"])]
		if window, burn := strings.CutPrefix(text(line["id"]), "burn_"); burn {
			name, ok = "burn "+window, true
		}
		if ok && (name != "sli" || unit == "requests") {
			s.same(path+" Explain", p, said{name: text(line["value"])})
		}
	}
	s.burns(path, p, page, api["rules"].([]any))
	s.history(path, p)
}

// burns are the pairs of windows, and the file of rates.
func (s *surfaces) burns(path string, p promise, page node, rules []any) {
	for _, table := range page.all("table") {
		rows := table.all("tr")
		if rows[0].one("th").says() != "Windows" {
			continue
		}
		if len(rows)-1 != len(rules) {
			s.t.Errorf("%s has %d pairs of windows, the API %d rules", path, len(rows)-1, len(rules))
			return
		}
		for i, x := range rules {
			rule, cells := x.(map[string]any), rows[i+1].all("td")
			rates := cells[1].all("span")
			s.same(path+" burn rates", p, said{"burn " + text(rule["long"]): rates[0].says(), "burn " + text(rule["short"]): rates[1].says()})
			limit, err := rule["threshold_milli"].(json.Number).Int64()
			if err != nil || cells[2].says() != rateShown(limit) {
				s.t.Errorf("%s: a limit of %s, want %s", path, cells[2].says(), rateShown(limit))
			}
			if fires := cells[3].says() == text(rule["severity"]); fires != (text(rule["firing"]) == "true") {
				s.t.Errorf("%s: rule %v is %s", path, rule, cells[3].says())
			}
		}
	}
	for _, format := range []string{"csv", "json"} {
		body := s.get(path + mark(path) + "table=burn_rates&format=" + format)
		for _, row := range lines(s.t, body, format) {
			seconds, err := strconv.Atoi(row["window_seconds"])
			if err != nil {
				s.t.Fatal(err)
			}
			w := windowOf(time.Duration(seconds) * time.Second)
			s.same(path+" rates as "+format, p, said{"burn_milli " + w: row["rate_milli"], "burn_bad " + w: row["bad_events"], "burn_valid " + w: row["valid_events"], "burn_spent " + w: row["spent_ppm"]})
		}
	}
}

func mark(path string) string {
	if strings.Contains(path, "?") {
		return "&"
	}
	return "?"
}

func windowOf(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= u.size && d%u.size == 0 {
			return fmt.Sprint(int64(d/u.size)) + u.name
		}
	}
	return fmt.Sprint(int64(d/time.Second)) + "s"
}

// history: the last point of a burn-down is the tile, and any other is the budget that
// the API gives for its instant.
func (s *surfaces) history(path string, p promise) {
	r := draws(s.ledger.rnd, "15m", "1h", "6h", "1d", "7d", "30d")
	points := lines(s.t, s.get(path+mark(path)+"table=burndown&format=json&r="+r), "json")
	if len(points) == 0 {
		if s.want[p]["no_data"] != "true" {
			s.t.Errorf("%s&r=%s has no point", path, r)
		}
		return
	}
	end := s.ledger.until.Add(time.Minute - 1).Truncate(time.Minute)
	for _, point := range points {
		if point["at"] == end.Format(time.RFC3339Nano) {
			s.same(path+" burn-down, last point over "+r, p, said{"remaining_ppm": point["remaining_ppm"]})
		}
	}
	point := points[s.ledger.rnd.IntN(len(points))]
	at, err := time.Parse(time.RFC3339Nano, point["at"])
	if err != nil || at.After(s.ledger.until) || p.env == "" {
		return
	}
	budget := exact(s.t, s.get(query("/api/v1/slos/"+p.id+"/budget", "env", p.env, "at", at.Format(time.RFC3339)))).(map[string]any)["budget"].(map[string]any)
	s.compared++
	if got := text(budget["remaining_ppm"]); got != point["remaining_ppm"] {
		s.t.Errorf("%s over %s at %s (%s): %q on the page, %q over the API", path, r, at, s.spec[p.id].Promise(), point["remaining_ppm"], got)
	}
}

// gates asks for one service on every way there is.
func (s *surfaces) gates(service string) {
	envs := append([]string{""}, s.ledger.envs[service]...)
	var all map[string]any
	var worst promise
	for _, env := range envs {
		api := exact(s.t, s.get(query("/api/v1/gate/decision", "service", service, "env", env, "dry_run", "true"))).(map[string]any)
		cli := verb(s.t, "", "gate", service, "--env", env, "--dry-run", "-o", "json", "--control", s.url)
		typed := exact(s.t, cli.out).(map[string]any)
		for _, name := range []string{"decision", "state", "reason_code", "remaining", "coverage", "thaw_at", "burn", "rests_on", "reasons"} {
			s.compared++
			if got, want := fmt.Sprint(typed[name]), fmt.Sprint(api[name]); got != want {
				s.t.Errorf("gate %s --env %q: %s is %s, over the API %s", service, env, name, got, want)
			}
		}
		if code := map[string]int{"allow": 0, "deny": 1, "hold": 3, "unknown": 4}[text(api["decision"])]; cli.code != code {
			s.t.Errorf("gate %s ends with %d, want %d", service, cli.code, code)
		}
		rests, ok := api["rests_on"].(map[string]any)
		if !ok {
			continue
		}
		got := said{"state": text(api["state"]), "thaw_at": text(api["thaw_at"]), "remaining_ppm": scaled(api["remaining"], 1_000_000), "coverage_ppm": scaled(api["coverage"], 1_000_000),
			"good_events": text(rests["good"]), "bad_events": text(rests["bad"]), "allowed_events": text(rests["allowed"])}
		for w, rate := range api["burn"].(map[string]any) {
			got["burn_milli "+w] = scaled(rate, 1000)
		}
		// Asked for no environment, the gate answers by the worst and does not name it.
		p := promise{text(rests["objective"]), env}
		for other, want := range s.want {
			if env == "" && other.id == p.id && got.differs(want) == "" {
				p = other
			}
		}
		s.same("gate of "+service, p, got)
		if env == "" {
			all, worst = api, p
		}
	}
	if all != nil {
		s.verdict(service, worst, all)
	}
}

// scaled is a decimal times unit, which must be whole; null is "".
func scaled(v any, unit int64) string {
	n, ok := v.(json.Number)
	if !ok {
		return text(v)
	}
	r, ok := new(big.Rat).SetString(n.String())
	if !ok || !r.Mul(r, big.NewRat(unit, 1)).IsInt() {
		return n.String() + " is not whole"
	}
	return r.Num().String()
}

// verdict is what pages say of a service as a whole: that of its worst promise, which
// is the one the gate goes by.
func (s *surfaces) verdict(service string, p promise, api map[string]any) {
	want := s.want[p]
	left := func(n node) string {
		if text := n.own(); text != "–" {
			return text
		}
		return "no data"
	}
	for _, format := range []string{"csv", "json"} {
		for _, row := range lines(s.t, s.get("/gate?table=verdicts&format="+format), format) {
			if row["service"] != service {
				continue
			}
			s.same("/gate as "+format, p, said{"state": row["state"], "remaining_ppm": row["remaining_ppm"], "thaw_at": row["thaw_at"]})
			if row["decision"] != text(api["decision"]) || row["reason_code"] != text(api["reason_code"]) {
				s.t.Errorf("/gate as %s has %v, want %v", format, row, api)
			}
		}
	}
	shown := 0
	row := func(path string, n node, figure node, burn string) {
		shown++
		got := said{"left": left(figure)}
		if burn != "" {
			got["burn 1h"] = burn
		}
		s.same(path, p, got)
		if chip := n.one(".chip").says(); chip != stateShown(want) {
			s.t.Errorf("%s: %s is %s, want %s", path, service, chip, stateShown(want))
		}
	}
	for _, n := range parsed(s.t, s.get("/gate")).one("main").all("tr") {
		if n.one("a").says() == service && len(n.all("td")) == 6 { // not the table of past freezes
			row("/gate", n, n.one("td.n"), "")
			if verdict := n.one("b").says(); verdict != text(api["decision"]) {
				s.t.Errorf("/gate: %s is %s, want %v", service, verdict, api["decision"])
			}
		}
	}
	for _, n := range parsed(s.t, s.get("/?view=table")).one("main").all("tr") {
		if n.one("a").says() == service {
			cells := n.all("td")
			row("/?view=table", n, cells[2], cells[4].says())
		}
	}
	for _, n := range parsed(s.t, s.get("/")).one("main").all("a.svc") {
		if n.attr("data-key") == service {
			row("/", n, n.one(".big"), n.one("span.right", "b").says())
		}
	}
	page := parsed(s.t, s.get("/services/"+service)).one("main")
	row("/services/{service}", page.one(".head"), page.one("#budget", ".huge"), "")
	now := exact(s.t, s.get(query("/api/v1/now", "service", service, "env", p.env))).(map[string]any)["situation"].(map[string]any)["measure"].(map[string]any)
	if text(now["objective"]) == p.id {
		s.same("now", p, said{"remaining_ppm": text(now["remaining_ppm"]), "state": text(now["level"]), "thaw_at": text(now["thaw_at"])})
	}
	if shown != 4 {
		s.t.Errorf("%s stands on %d of 4 pages", service, shown)
	}
}
