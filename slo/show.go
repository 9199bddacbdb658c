package slo

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// How figures are written. Page, API text, CLI and alert call these and nothing
// else, so that one number reads the same everywhere.
const (
	thin  = "\u202f" // narrow no-break space: between thousands, before a unit
	minus = "\u2212" // a real minus, as wide as a plus
)

// Percent writes parts per million with one decimal, rounded down, so that a
// budget is never shown fuller than it is: "61.3 %", "−5.6 %", "0 %". What is
// left but below a tenth reads "<0.1 %".
func Percent(ppm int64) string {
	tenths := ppm / 1000
	if ppm%1000 != 0 && ppm < 0 {
		tenths--
	}
	switch {
	case ppm == 0:
		return "0" + thin + "%"
	case tenths == 0:
		return "<0.1" + thin + "%"
	case tenths%10 == 0 && ppm%1000 == 0:
		return signed(tenths/10) + thin + "%"
	case tenths < 0:
		return minus + Percent1(-tenths)
	}
	return Percent1(tenths)
}

// SpentPercent writes what is spent, rounded up where Percent rounds what is left
// down: "24.1 %". The two always add up to 100.0 %, and neither looks better than
// what was counted.
func SpentPercent(ppm int64) string {
	tenths := ppm / 1000
	if ppm%1000 > 0 {
		tenths++
	}
	switch {
	case ppm%1000 == 0:
		return Percent(ppm)
	case tenths < 0:
		return minus + Percent1(-tenths)
	}
	return Percent1(tenths)
}

// Percent1 writes tenths of a percent, not negative.
func Percent1(tenths int64) string {
	return fmt.Sprintf("%s.%d%s%%", Count(tenths/10), tenths%10, thin)
}

// Target writes a target without rounding: "99.95 %".
func Target(ppb int64) string { return TargetPercent(ppb) + thin + "%" }

// Share writes part of all as a percentage with enough decimals to tell 99.95
// from 99.96, rounded down; "no data" when there is nothing.
func Share(part, all int64) string {
	if all <= 0 {
		return "no data"
	}
	ppm := ratio(part, all, million)
	s := strings.TrimRight(fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000), "0")
	return strings.TrimSuffix(s, ".") + thin + "%"
}

// Count writes a whole number with thin spaces between thousands.
func Count(n int64) string { return signed(n) }

func signed(n int64) string {
	s := strconv.FormatInt(n, 10)
	s, negative := strings.CutPrefix(s, "-")
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + thin + s[i:]
	}
	if negative {
		return minus + s
	}
	return s
}

// Rate writes a burn rate: "14.4×", "0×", "<0.1×", or "no data".
func Rate(b Burn) string {
	if b.NoData {
		return "no data"
	}
	return RateMilli(b.RateMilli)
}

// RateMilli writes thousandths of the rate that spends exactly the budget, to the
// nearest tenth, half a tenth upwards; from a hundred on to the nearest whole.
func RateMilli(milli int64) string {
	tenths := (milli + 50) / 100
	switch {
	case milli == 0:
		return "0×"
	case tenths == 0:
		return "<0.1×"
	case tenths >= 1000:
		return Count((milli+500)/1000) + "×"
	case milli%1000 == 0:
		return Count(milli/1000) + "×"
	}
	return fmt.Sprintf("%d.%d×", tenths/10, tenths%10)
}

// Span writes a duration in its two largest units: "3 h 12 min", "45 s".
func Span(d time.Duration) string {
	if d < 0 {
		return minus + Span(-max(d, -math.MaxInt64)) // the least one has no opposite
	}
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.size {
			continue
		}
		s := fmt.Sprintf("%d%s%s", d/u.size, thin, u.name)
		if i+1 < len(units) {
			if rest := d % u.size / units[i+1].size; rest > 0 {
				s += fmt.Sprintf(" %d%s%s", rest, thin, units[i+1].name)
			}
		}
		return s
	}
	return fmt.Sprintf("%d%sms", d/time.Millisecond, thin)
}

// Window names a burn window as metrics and APIs do: "5m", "1h", "3d".
func Window(d time.Duration) string {
	switch {
	case d >= 24*time.Hour && d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// Clock writes an instant with its zone: "27 Nov 21:40 UTC"; "never" for none.
func Clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2 Jan 15:04 UTC")
}

// ChaosRoom is how much of the budget experiments may still spend before their
// failures count, in ppm of it; false: the objective sets no such cap.
func (s Status) ChaosRoom() (ppm int64, capped bool) {
	t := s.Objective.terms()
	if t.Chaos != ChaosCap {
		return 0, false
	}
	return max(t.ChaosCapPPM-SpentBy(s.Objective.TargetPPB, s.Budget.Tally.ChaosBad, s.Budget.Base), 0), true
}

// Ratio writes parts per million as an exact decimal: "-0.6", "0.333333".
func Ratio(ppm int64) string {
	sign := ""
	if ppm < 0 {
		sign, ppm = "-", -ppm
	}
	s := strings.TrimRight(fmt.Sprintf("%s%d.%06d", sign, ppm/million, ppm%million), "0")
	return strings.TrimSuffix(s, ".")
}
