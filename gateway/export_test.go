package gateway

// Guarded lets tests dial by a resolver of their own.
var Guarded = guarded

// RaceEnabled says that the race detector is on, under which pools forget.
const RaceEnabled = raceEnabled
