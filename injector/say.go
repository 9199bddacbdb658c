package injector

import "breakwater/injector/scenario"

// Said is an assertion as runs show it: in words, and in short what is expected.
// Whoever shows a scenario before it has run says it the same way.
func Said(a scenario.Assertion) (text, short string) { return words(a), expected(a) }
