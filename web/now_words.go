package web

import (
	"strings"
	"time"

	"breakwater/slo/now"
)

// headline is the sentence of the answer, cut in two. In another language it is put
// together of what that sentence says.
func (v view) headline(sit now.Situation) (title, sub string) {
	switch {
	case v.words == nil:
	case sit.Stale: // the first sentence says so, the other what was known
		title, sub, _ = strings.Cut(sit.Headline, ". ")
		return v.tell(title + "."), v.tell(sub)
	case sit.Silent && sit.DataUntil != nil:
		return v.say("No data of %s", sit.Service), v.say("no gateway has reported for three minutes, reports reach until %s.", v.clock(*sit.DataUntil).Text)
	case sit.Silent:
		return v.say("No data of %s", sit.Service), v.say("no gateway has reported for three minutes.")
	case sit.State == now.NoData && sit.DataUntil != nil:
		return v.say("No data of %s", sit.Service), v.say("nothing was reported for ten minutes, reports reach until %s.", v.clock(*sit.DataUntil).Text)
	case sit.State == now.NoData:
		return v.say("No data of %s", sit.Service), v.say("nothing was reported for ten minutes.")
	case sit.State == now.Fine:
		return v.say("%s is fine", sit.Service), v.say("nobody is hit beyond what is usual.")
	case sit.Since != nil:
		since, span := v.clock(*sit.Since).Text, v.lasting(max(v.now.Sub(*sit.Since), 0).Truncate(time.Second))
		if sit.State == now.Covered {
			return v.say("%s fails behind its retries and fallbacks", sit.Service), v.say("since %s (%s); users are hardly hit.", since, span)
		}
		if sit.Who.Throttled*2 > sit.Who.Hits {
			return v.say("%s refuses requests", sit.Service), v.say("since %s, for %s.", since, span)
		}
		return v.say("%s is failing", sit.Service), v.say("since %s, for %s.", since, span)
	}
	if sit.Stale || sit.State == now.Fine || sit.State == now.NoData {
		lead, rest, _ := strings.Cut(sit.Headline, ": ")
		return strings.TrimSuffix(lead, "."), rest
	}
	title, sub, _ = strings.Cut(strings.TrimSuffix(sit.Headline, "."), " since ")
	if sub != "" {
		sub = "since " + sub + "."
	}
	return title, sub
}

// sentence begins with a capital and ends with a stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if !latin(text) {
		return strings.TrimSuffix(text, "。") + "。"
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}
