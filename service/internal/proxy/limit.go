package proxy

import "github.com/weir-go/weir/service/internal/proxyrule"

// A Limit bounds the requests in flight: a number, or the name of an algorithm. The zero
// Limit is automatic.
type Limit = proxyrule.Limit

// FixedLimit returns a Limit of n requests, n >= 0. Zero refuses all.
func FixedLimit(n int) Limit { return proxyrule.FixedLimit(n) }
