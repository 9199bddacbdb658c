package freeze

// Kind is what sort of change asks to go out.
type Kind string

// The kinds. Feature is assumed where none is named: it is the strictest.
const (
	Feature        Kind = "feature"
	ConfigChange   Kind = "config"
	Dependency     Kind = "dependency"
	ReliabilityFix Kind = "reliability_fix"
	SecurityFix    Kind = "security_fix"
	Rollback       Kind = "rollback"
	Scale          Kind = "scale"
	Experiment     Kind = "experiment"
)

// Kinds lists them all.
func Kinds() []Kind {
	return []Kind{Feature, ConfigChange, Dependency, ReliabilityFix, SecurityFix, Rollback, Scale, Experiment}
}

// Proof is how a change is known to be of its kind.
type Proof string

// The proofs.
const (
	// Declared takes the caller's word: enough only where a policy says so.
	Declared Proof = "declared"
	// History: the change is a version that ran before. By our own deploy markers,
	// or by the platform's, where a dialect of the gate has looked.
	History Proof = "history"
	// Label: a label of the change that only code owners can set, read by a dialect.
	Label Proof = "label"
	// Attested: a statement signed by control for an operator or approver.
	Attested Proof = "attestation"
	// Incident: a declared incident of the service that goes on, or ended within a day.
	Incident Proof = "incident"
)

// Proofs lists them all.
func Proofs() []Proof { return []Proof{Declared, History, Label, Attested, Incident} }
