package memory

import (
	"math"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Instances returns the number of nodes that share the limits.
func (m *Counts) Instances() int { return int(m.instances.Load()) }

// SetInstances changes the number of nodes that share the limits, from the next Use on. It returns the number before.
func (m *Counts) SetInstances(n int) (was int) { return int(m.instances.Swap(int64(n))) }

// share returns a quota divided by the number of nodes; as it is if these share no limits.
func (m *Counts) share(q config.Quota) config.Quota { return Divided(q, m.Instances()) }

// Divided returns the share of a quota that one of n nodes has.
func Divided(q config.Quota, n int) config.Quota {
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

// ShareOfRequest returns a request with its quota, if it brings one, divided by the number of
// nodes.
func (m *Counts) ShareOfRequest(req *decider.Request) *decider.Request {
	n := m.Instances()
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
