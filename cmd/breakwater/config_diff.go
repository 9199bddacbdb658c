package main

import (
	"regexp"
	"slices"
	"strings"

	"breakwater/internal/conf"
	"breakwater/web"
)

// differences lists the files that are not alike, by name, with the lines that differ.
func differences(was, is []conf.File) []web.FileChange {
	old, all := map[string]string{}, map[string]bool{}
	for _, f := range was {
		old[f.Name], all[f.Name] = string(f.Data), true
	}
	next := map[string]string{}
	for _, f := range is {
		next[f.Name], all[f.Name] = string(f.Data), true
	}
	var out []web.FileChange
	for name := range all {
		a, had := old[name]
		b, has := next[name]
		if had && has && a == b {
			continue
		}
		change := web.FileChange{Name: name, What: "changed"}
		switch {
		case !had:
			change.What = "added"
		case !has:
			change.What = "removed"
		}
		change.Lines = around(lineDiff(shownLines(a), shownLines(b)))
		for _, l := range change.Lines {
			switch l.Mark {
			case "+":
				change.Added++
			case "-":
				change.Removed++
			}
		}
		out = append(out, change)
	}
	slices.SortFunc(out, func(a, b web.FileChange) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// address is a URL with a path. Those of receivers are secrets by their path, as
// Slack's are, so of a text that holds receivers only the hosts are shown.
var address = regexp.MustCompile(`(https?://[^/\s"'#]+/)[^\s"']+`)

func shownLines(text string) []string {
	if text == "" {
		return nil
	}
	if strings.Contains(text, "AlertRoute") {
		text = address.ReplaceAllString(text, "${1}…")
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// mostCells bounds the table of lineDiff: beyond it all lines between the first and
// the last difference count as changed.
const mostCells = 4 << 20

// lineDiff pairs the lines of two texts by their longest common sequence.
func lineDiff(a, b []string) []web.DiffLine {
	var out []web.DiffLine
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	for _, l := range a[:head] {
		out = append(out, web.DiffLine{Mark: " ", Text: l})
	}
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	width := len(y) + 1
	var longest []int32 // of x[i:] and y[j:], at i*width+j
	if len(x)*len(y) <= mostCells {
		longest = make([]int32, (len(x)+1)*width)
		for i := len(x) - 1; i >= 0; i-- {
			for j := len(y) - 1; j >= 0; j-- {
				if x[i] == y[j] {
					longest[i*width+j] = longest[(i+1)*width+j+1] + 1
				} else {
					longest[i*width+j] = max(longest[(i+1)*width+j], longest[i*width+j+1])
				}
			}
		}
	}
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case longest != nil && i < len(x) && j < len(y) && x[i] == y[j]:
			out = append(out, web.DiffLine{Mark: " ", Text: x[i]})
			i, j = i+1, j+1
		case i < len(x) && (j == len(y) || longest == nil || longest[(i+1)*width+j] >= longest[i*width+j+1]):
			out = append(out, web.DiffLine{Mark: "-", Text: x[i]})
			i++
		default:
			out = append(out, web.DiffLine{Mark: "+", Text: y[j]})
			j++
		}
	}
	for _, l := range a[len(a)-tail:] {
		out = append(out, web.DiffLine{Mark: " ", Text: l})
	}
	return out
}

// contextLines is how many lines stand round what differs.
const contextLines = 3

// around keeps the lines that differ and those next to them; a line of mark "…"
// stands for what is left out.
func around(all []web.DiffLine) []web.DiffLine {
	near := make([]bool, len(all))
	for i, l := range all {
		if l.Mark == " " {
			continue
		}
		for j := max(0, i-contextLines); j <= min(len(all)-1, i+contextLines); j++ {
			near[j] = true
		}
	}
	var out []web.DiffLine
	for i, l := range all {
		switch {
		case near[i]:
			out = append(out, l)
		case i == 0 || near[i-1]:
			out = append(out, web.DiffLine{Mark: "…"})
		}
	}
	return out
}
