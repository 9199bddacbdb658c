package plan

import (
	"encoding/json"
	"testing"

	"breakwater/gateway/policy/fault"
)

func TestHashTellsFaultsApartAndSurvivesJSON(t *testing.T) {
	a := fault.Fault{ID: "f", Run: "r", Seed: "s", PPM: 10, Target: fault.Target{Service: "order"}, Kind: fault.Latency, LatencyMS: 5}
	b := a
	b.LatencyMS = 6
	if HashOf(a) == HashOf(b) || len(HashOf(a)) != 32 {
		t.Errorf("hashes %q and %q", HashOf(a), HashOf(b))
	}
	text, err := json.Marshal(Leased{Fault: a, TTLMS: FaultTTLMS, Hash: HashOf(a)})
	if err != nil {
		t.Fatal(err)
	}
	var back Leased
	if err := json.Unmarshal(text, &back); err != nil || HashOf(back.Fault) != back.Hash {
		t.Errorf("after the wire %q, written %q, %v", HashOf(back.Fault), back.Hash, err)
	}
}
