package slo

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// whole is 100 % in the unit of targets, parts per 10^9.
const whole = 1_000_000_000

// million is 100 % in the unit of shown ratios, parts per 10^6.
const million = 1_000_000

// ErrTarget is wrapped by every refusal of a target.
var ErrTarget = errors.New("bad target")

// ParseTarget reads "99.95", "99.95%" or "0.9995" as parts per 10^9, digit by
// digit: a float would turn 99.9 into 0.9990000000000001. Without a percent sign
// a number below 1 is a ratio. 0 and 100 % are refused, since a budget of nothing
// divides by zero, and so is anything below 50 %: it is a budget given by mistake.
func ParseTarget(text string) (int64, error) {
	s := strings.TrimSpace(text)
	digits, percent := strings.CutSuffix(s, "%")
	digits = strings.TrimSpace(digits)
	before, after, _ := strings.Cut(digits, ".")
	if before == "" && after == "" || strings.Trim(before+after, "0123456789") != "" || len(before) > 3 {
		return 0, fmt.Errorf("%w: must be a percentage such as 99.95%% or a ratio such as 0.9995, got %q", ErrTarget, text)
	}
	// Above 1 it cannot be a ratio, so it is a percentage; 1 itself is the ratio
	// 100 %, refused below.
	if n, _ := strconv.Atoi(before); n > 1 || n == 1 && strings.Trim(after, "0") != "" {
		percent = true
	}
	places := 9
	if percent {
		places = 7
	}
	after = strings.TrimRight(after, "0")
	if len(after) > places {
		return 0, fmt.Errorf("%w: at most %d decimals are kept, got %q", ErrTarget, places, text)
	}
	n, err := strconv.ParseInt("0"+before+after+strings.Repeat("0", places-len(after)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q: %v", ErrTarget, text, err)
	}
	switch {
	case n >= whole:
		return 0, fmt.Errorf("%w: must be below 100 %%, since that leaves no budget at all, got %q", ErrTarget, text)
	case n <= 0:
		return 0, fmt.Errorf("%w: must be above 0, got %q", ErrTarget, text)
	case n < whole/2:
		return 0, fmt.Errorf("%w: must be at least 50 %%, got %q: this looks like an error budget, for which the target is %s", ErrTarget, text, TargetRatio(whole-n))
	}
	return n, nil
}

// TargetRatio writes parts per 10^9 as the shortest exact decimal: 0.999.
func TargetRatio(ppb int64) string {
	s := strings.TrimRight(fmt.Sprintf("%d.%09d", ppb/whole, ppb%whole), "0")
	return strings.TrimSuffix(s, ".")
}

// TargetPercent writes parts per 10^9 as the shortest exact percentage, without
// the sign: 99.95.
func TargetPercent(ppb int64) string {
	s := strings.TrimRight(fmt.Sprintf("%d.%07d", ppb/(whole/100), ppb%(whole/100)), "0")
	return strings.TrimSuffix(s, ".")
}
