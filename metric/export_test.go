package metric

// The constructors behind those of the types, for Stats made up by a test.
var (
	HTTP       = newHTTP
	GRPC       = newGRPC
	Limiter    = newLimiter
	Keyed      = newKeyed
	Throttle   = newThrottle
	Retries    = newRetries
	Cache      = newCache
	HTTPCache  = newHTTPCache
	Transport  = newTransport
	GRPCClient = newGRPCClient
)
