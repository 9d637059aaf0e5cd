package server

import (
	"math"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// instances returns the number of nodes that share the limits.
func (s *Server) instances() int { return int(s.shares.Load()) }

// shareOf returns a quota divided by the number of nodes; as it is if the Server shares no
// limits.
func (s *Server) shareOf(q config.Quota) config.Quota { return divided(q, s.instances()) }

func divided(q config.Quota, n int) config.Quota {
	switch {
	case n <= 1 || q.Rate.Period == 0:
	case q.Algorithm.Windows():
		q.Rate.Count /= n
	case q.Limit() < n:
		q.Burst, q.Rate.Count = 0, 0
	default:
		q.Burst = q.Limit() / n
		if q.Rate.Period > math.MaxInt64/time.Duration(n) {
			q.Rate.Count = max(q.Rate.Count/n, 1)
		} else {
			q.Rate.Period *= time.Duration(n)
		}
	}
	return q
}

// since returns the instant that states note as their beginning. Nodes that share their limits,
// and members of a fleet, must all note the same, because grants are settled at any of them.
func (s *Server) since() time.Duration {
	if s.cfg.Instances > 0 || s.cfg.Fleet != "" {
		return 0
	}
	return s.clock.Now()
}

// learn keeps the node's bucket of a key at its share of what the store has left.
func (s *Shared) learn(r *rule, key string, at time.Duration, remaining int) {
	bucket := r.Bucket(key)
	print := r.buckets.Fingerprint(bucket)
	share := remaining / s.instances()
	if has := r.buckets.Take(bucket, print, at, 0, r.baseLimit, false).Remaining; has > share {
		r.buckets.Take(bucket, print, at, has-share, r.baseLimit, false)
	}
}

// shareOfRequest returns a request with its quota, if it brings one, divided by the number of
// nodes.
func (s *Server) shareOfRequest(req *decider.Request) *decider.Request {
	n := s.instances()
	if req.Quota == nil || n <= 1 {
		return req
	}
	share, q := *req, *req.Quota
	if share.Quota = &q; q.Unit > 0 {
		q.Count /= n
		return &share
	}
	q.Burst = max(q.Limit()/n, 1)
	q.Period *= time.Duration(n)
	return &share
}
