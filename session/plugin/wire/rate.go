package wire

// Limits in time of what instances send to one node. For a short time a node accepts [RateBurst] seconds' worth at once.
// A request above its limit is refused with [CodeRateLimited], a callback with the status 429, and an output is dropped.
const (
	RateBurst              = 2       // seconds
	RegistrationsPerSecond = 20      // of one plugin
	FiresPerSecond         = 50      // of one plugin
	CallbacksPerSecond     = 25      // of one call; a repeat counts
	PluginCallbacks        = 250     // a second, of all calls of one plugin
	MaxOutputsPerSecond    = 40      // of one call; an instance sends at most [OutputsPerSecond]
	OutputBytesPerSecond   = 1 << 20 // of one call
	AnswersPerSecond       = 500     // of one call, of all kinds
	AnswerBytesPerSecond   = 32 << 20
	PluginOutputs          = 1000    // a second, of all calls of one plugin
	PluginOutputBytes      = 8 << 20 // a second, of all calls of one plugin
)
