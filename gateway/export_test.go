package gateway

// Guarded lets tests dial by a resolver of their own.
var Guarded = guarded
