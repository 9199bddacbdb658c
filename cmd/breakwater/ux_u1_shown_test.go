package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// Figures as people read them, written once more and not by the code that shows
// them, so that a rounding that changes there is seen.

const narrow = "\u202f"

func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "\u2212", digits[1:]
	}
	var parts []string
	for len(digits) > 3 {
		parts = append([]string{digits[len(digits)-3:]}, parts...)
		digits = digits[:len(digits)-3]
	}
	return sign + strings.Join(append([]string{digits}, parts...), narrow)
}

// tenths writes n tenths of a percent.
func tenths(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "\u2212", -n
	}
	return sign + grouped(n/10) + "." + strconv.FormatInt(n%10, 10) + narrow + "%"
}

// rounded is ppm in tenths of a percent; up or down where it lies between two.
func rounded(ppm int64, up bool) int64 {
	n, rest := new(big.Int).DivMod(big.NewInt(ppm), big.NewInt(1000), new(big.Int)) // rounds down, rest is never negative
	if up && rest.Sign() > 0 {
		return n.Int64() + 1
	}
	return n.Int64()
}

// leftShown is what is left of a budget: never more than there is.
func leftShown(ppm int64) string {
	switch {
	case ppm%10_000 == 0:
		return grouped(ppm/10_000) + narrow + "%"
	case ppm > 0 && ppm < 1000:
		return "<0.1" + narrow + "%"
	}
	return tenths(rounded(ppm, false))
}

// spentShown is what is gone of it: never less.
func spentShown(ppm int64) string {
	if ppm%10_000 == 0 {
		return grouped(ppm/10_000) + narrow + "%"
	}
	return tenths(rounded(ppm, true))
}

// rateShown is a burn rate from its thousandths.
func rateShown(milli int64) string {
	switch n := (milli + 50) / 100; {
	case milli == 0:
		return "0×"
	case n == 0:
		return "<0.1×"
	case n >= 1000:
		return grouped((milli+500)/1000) + "×"
	case milli%1000 == 0:
		return grouped(milli/1000) + "×"
	default:
		return fmt.Sprintf("%d.%d×", n/10, n%10)
	}
}

// shareShown is part of all, to a ten thousandth of a percent, rounded down.
func shareShown(part, all int64) string {
	if all <= 0 {
		return "no data"
	}
	n := new(big.Int).Mul(big.NewInt(part), big.NewInt(1_000_000))
	ppm := n.Div(n, big.NewInt(all)).Int64()
	text := strings.TrimRight(fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000), "0")
	return strings.TrimSuffix(text, ".") + narrow + "%"
}

// said are the figures that one surface gives of one promise, by the names of the API.
// What it does not show is not there; what it shows as not measured is "".
type said map[string]string

// shows adds what a person reads to what a program does.
func (s said) shows(unit string) {
	number := func(name string) (int64, bool) {
		n, err := strconv.ParseInt(s[name], 10, 64)
		return n, err == nil
	}
	s["left"], s["spent"], s["sli"] = "no data", "", "no data"
	if ppm, ok := number("remaining_ppm"); ok {
		s["left"] = leftShown(ppm)
	}
	if ppm, ok := number("spent_ppm"); ok {
		s["spent"] = spentShown(ppm)
	}
	good, _ := number("good_events")
	valid, _ := number("valid_events")
	s["sli"] = shareShown(good, valid)
	for name := range s {
		if window, ok := strings.CutPrefix(name, "burn_milli "); ok {
			s["burn "+window] = "no data"
			if milli, ok := number(name); ok {
				s["burn "+window] = rateShown(milli)
			}
		}
	}
	if unit == "requests" {
		for _, name := range []string{"remaining_events", "allowed_events", "bad_events", "valid_events"} {
			if n, ok := number(name); ok {
				s["shown "+name] = grouped(n)
			}
		}
	}
}

// differs tells what s and want both give, and not alike; "" where there is nothing.
func (s said) differs(want said) string {
	var all []string
	for name, got := range s {
		if wanted, ok := want[name]; ok && got != wanted {
			all = append(all, fmt.Sprintf("%s: %q, want %q", name, got, wanted))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// exact reads JSON without making any number a float.
func exact(t *testing.T, body string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %.200s", err, body)
	}
	return v
}

// text is a JSON value as a said; null is "".
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	case string:
		return v
	}
	return fmt.Sprint(v)
}

// ofAPI are the figures of one SLO as GET /api/v1/slos has them.
func ofAPI(slo map[string]any) said {
	b := slo["budget"].(map[string]any)
	s := said{"state": text(slo["state"]), "coverage_ppm": text(slo["coverage_ppm"]), "thaw_at": text(slo["thaw_at"]), "empty_at": text(slo["empty_at"]), "data_until": text(slo["data_until"]),
		"target_ppb": text(slo["target_ppb"]), "no_data": text(b["no_data"])}
	for _, name := range []string{"good_events", "bad_events", "valid_events", "allowed_events", "remaining_events", "spent_ppm", "remaining_ppm", "chaos_bad_events"} {
		s[name] = text(b[name])
	}
	for _, x := range slo["burns"].([]any) {
		burn := x.(map[string]any)
		w := text(burn["window"])
		s["burn_milli "+w], s["burn_bad "+w], s["burn_valid "+w], s["burn_spent "+w] = text(burn["rate_milli"]), text(burn["bad_events"]), text(burn["valid_events"]), text(burn["spent_ppm"])
	}
	s.shows(text(b["unit"]))
	return s
}

// lines reads an export of a page: rows by column.
func lines(t *testing.T, body, format string) (rows []map[string]string) {
	t.Helper()
	if format == "json" {
		for _, row := range exact(t, body).([]any) {
			out := map[string]string{}
			for k, v := range row.(map[string]any) {
				out[k] = text(v)
			}
			rows = append(rows, out)
		}
		return rows
	}
	all, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if err != nil || len(all) == 0 {
		t.Fatalf("%v in %.200s", err, body)
	}
	for _, line := range all[1:] {
		out := map[string]string{}
		for i, name := range all[0] {
			out[name] = line[i]
		}
		rows = append(rows, out)
	}
	return rows
}

// node is a part of a page.
type node struct{ *html.Node }

func parsed(t *testing.T, body string) node {
	t.Helper()
	n, err := html.Parse(bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	return node{n}
}

func (n node) attr(name string) string {
	if n.Node != nil {
		for _, a := range n.Attr {
			if a.Key == name {
				return a.Val
			}
		}
	}
	return ""
}

// all are the elements below n that are meant by "tag", "#id", ".class" or
// "tag.class", in their order.
func (n node) all(what string) (out []node) {
	if n.Node == nil {
		return nil
	}
	id := strings.HasPrefix(what, "#")
	tag, class, _ := strings.Cut(strings.TrimPrefix(what, "#"), ".")
	for d := range n.Descendants() {
		x := node{d}
		switch {
		case d.Type != html.ElementNode:
		case id && x.attr("id") == tag, !id && (tag == "" || d.Data == tag) && (class == "" || strings.Contains(" "+x.attr("class")+" ", " "+class+" ")):
			out = append(out, x)
		}
	}
	return out
}

// one is the first of them; an empty node where there is none.
func (n node) one(path ...string) node {
	for _, what := range path {
		found := n.all(what)
		if len(found) == 0 {
			return node{}
		}
		n = found[0]
	}
	return n
}

var blanks = regexp.MustCompile(`[ \n\t]+`)

// says is the text of n, with plain blanks drawn together: the narrow ones stay.
func (n node) says() string {
	if n.Node == nil {
		return ""
	}
	var out strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			out.WriteString(d.Data)
		}
	}
	return strings.Trim(blanks.ReplaceAllString(out.String(), " "), " \n\t")
}
