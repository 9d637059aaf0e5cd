package sim

import "math/rand/v2"

// A stream has the random numbers of one decision: splitmix64 (Steele, Lea and Flood
// 2014), seeded for each call, attempt and layer. So the work of the n-th call does not
// depend on earlier decisions, and variants of a scenario get the same requests.
type stream struct{ state uint64 }

func (s *stream) Uint64() uint64 {
	s.state += 0x9e3779b97f4a7c15
	return mix(s.state)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Purposes of a stream. The layers' work counts up from forWork.
const (
	forCall     = iota // class, tenant
	forBackoff         // how long before a retry
	forThought         // how long a user thinks
	forThrottle        // whether an attempt is kept back
	forWork
)

// Other purposes of the layers, each of which counts up, too.
const (
	forInstance = (iota + 1) * 64 // of a guard
	forFate                       // whether a job fails, and after how long
	forPatience                   // how long a caller waits
)

// chance returns the random numbers for one purpose of an attempt of a call. They are
// valid until the next call of chance.
func (s *Sim) chance(id uint64, attempt int32, purpose int) *rand.Rand {
	s.src.state = mix(s.seed+mix(id+0x632be59bd9b4e019)) + mix(uint64(attempt)<<16|uint64(purpose))
	return s.rng
}
