package cron

import "testing"

func TestWords(t *testing.T) {
	for _, tt := range []struct {
		spec Spec
		want string
	}{
		{Spec{Cron: "0 10 * * 2", Zone: "Europe/Berlin"}, "at 10:00 Europe/Berlin, every Tuesday"},
		{Spec{Cron: "0 9,17 * * 1-5"}, "at 09:00 and 17:00 UTC, every Monday to Friday"},
		{Spec{Cron: "* * * * *"}, "every minute UTC, every day"},
		{Spec{Cron: "*/10 * * * *"}, "each hour at minutes 0, 10, 20, 30, 40 and 50 UTC, every day"},
		{Spec{Cron: "0 10 1,15 * *"}, "at 10:00 UTC, on day 1 and 15 of each month"},
		{Spec{Cron: "0 10 * 3,9 *"}, "at 10:00 UTC, every day of March and September"},
		{Spec{Cron: "0 10 * * *", Zone: "Europe/Berlin", Week: 1, Day: "mon", Quarterly: true}, "at 10:00 Europe/Berlin, on the first Monday of each quarter"},
		{Spec{Cron: "0 10 * * *", Week: 2, Day: "tue"}, "at 10:00 UTC, on the second Tuesday of each month"},
		{Spec{Cron: "@every 168h"}, "every 168h"},
		{Spec{Cron: "@daily"}, "at 00:00 UTC, every day"},
		{Spec{Cron: "0 10 29 2 *"}, "at 10:00 UTC, on day 29 of February"},
	} {
		if got := parse(t, tt.spec).Words(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.spec, got, tt.want)
		}
	}
}
