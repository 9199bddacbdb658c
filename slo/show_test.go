package slo

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestFiguresAsShown(t *testing.T) {
	tests := []struct{ got, want string }{
		{Percent(613_499), "61.3 %"}, {Percent(-56_000), "−5.6 %"}, {Percent(-56_001), "−5.7 %"},
		{Percent(0), "0 %"}, {Percent(999), "<0.1 %"}, {Percent(-1), "−0.1 %"}, {Percent(1_000_000), "100 %"},
		{Percent(999_999), "99.9 %"}, {Percent(1_056_000), "105.6 %"}, {Percent(-12_345_678_000), "−1 234 567.8 %"},
		{Percent(600_000), "60 %"}, {Percent(600_001), "60.0 %"}, {Percent(-1_000_000), "−100 %"},
		{Count(1_234_567), "1 234 567"}, {Count(-999), "−999"}, {Count(0), "0"}, {Count(-1000), "−1 000"},
		{Target(999_500_000), "99.95 %"}, {Share(99_987, 100_000), "99.987 %"}, {Share(1, 3), "33.3333 %"},
		{RateMilli(14_400), "14.4×"}, {RateMilli(49), "<0.1×"}, {RateMilli(50), "0.1×"}, {RateMilli(2000), "2×"}, {RateMilli(240_500), "241×"},
		{RateMilli(189), "0.2×"}, {RateMilli(1_949), "1.9×"}, {RateMilli(1_950), "2.0×"}, {RateMilli(99_949), "99.9×"}, {RateMilli(99_950), "100×"}, {RateMilli(0), "0×"},
		{SpentPercent(241_001), "24.2 %"}, {SpentPercent(240_001), "24.1 %"}, {SpentPercent(1), "0.1 %"}, {SpentPercent(0), "0 %"},
		{SpentPercent(1_056_000), "105.6 %"}, {SpentPercent(999_001), "100.0 %"}, {SpentPercent(1_000_000), "100 %"},
		{Span(3*time.Hour + 12*time.Minute), "3 h 12 min"}, {Span(45 * time.Second), "45 s"}, {Span(30 * 24 * time.Hour), "30 d"},
		{Span(0), "0 ms"}, {Span(-time.Minute), "−1 min"},
		{Window(5 * time.Minute), "5m"}, {Window(72 * time.Hour), "3d"}, {Window(6 * time.Hour), "6h"},
		{Clock(noon), "10 Mar 12:00 UTC"}, {Clock(time.Time{}), "never"},
	}
	for _, tt := range tests {
		// A plain space stands for the narrow one, but between words of a span and
		// parts of an instant.
		if got := strings.ReplaceAll(tt.got, thin, " "); got != tt.want {
			t.Errorf("shown as %q, want %q", got, tt.want)
		}
	}
	if strings.Contains(Percent(1_500_000_000)+Count(1_000_000), " ") {
		t.Error("a plain space would let a number break over lines")
	}
	if Ratio(-600_000) != "-0.6" || Ratio(0) != "0" || Ratio(333_333) != "0.333333" || Ratio(1_000_000) != "1" {
		t.Errorf("ratios: %s %s %s", Ratio(-600_000), Ratio(0), Ratio(333_333))
	}
}

// TestSpentAndLeftAddUp: what a reader adds up from two figures of one budget is
// 100.0 %, whatever the budget, and neither looks better than what was counted.
func TestSpentAndLeftAddUp(t *testing.T) {
	plain := strings.NewReplacer(thin, "", "%", "", minus, "-", "<0.1", "0.0")
	tenths := func(s string) int64 {
		s = plain.Replace(s)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		n, err := strconv.ParseInt(strings.Replace(s, ".", "", 1), 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		return n
	}
	// Rounding turns at whole tenths: both sides of each, and somewhere in between.
	for tenth := int64(0); tenth <= 1100; tenth++ {
		for _, beside := range []int64{0, 1, 2, 499, 500, 501, 998, 999} {
			ppm := tenth*1000 + beside
			spent, left := tenths(SpentPercent(ppm)), tenths(Percent(million-ppm))
			if spent+left != 1000 || spent*1000 < ppm || left*1000 > million-ppm {
				t.Fatalf("%d ppm: %s spent and %s left", ppm, SpentPercent(ppm), Percent(million-ppm))
			}
		}
	}
}
