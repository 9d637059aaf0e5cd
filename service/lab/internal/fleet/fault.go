package fleet

import "time"

// Events of faults have their number and whether it is the end in the generation.
func faultEvent(fault int, ends bool) uint32 {
	if ends {
		return uint32(fault)<<1 | 1
	}
	return uint32(fault) << 1
}

// planFaults schedules the faults.
func (s *Sim) planFaults() {
	for n, f := range s.sc.Faults {
		if f.Kind == Upstream {
			s.agenda.push(f.At, evFault, n, 0, nil)
			s.agenda.push(f.At+f.For, evFault, n, 1, nil)
			continue
		}
		f.each(len(s.leaves), func(leaf, i, of int) {
			at := f.At + time.Duration(float64(f.Over)*float64(i)/float64(of))
			if f.Kind == Start {
				s.leaves[leaf].downs++
			} else {
				s.agenda.push(at, evLeaf, leaf, faultEvent(n, false), nil)
			}
			if f.Kind != Stop {
				s.agenda.push(at+f.For, evLeaf, leaf, faultEvent(n, true), nil)
			}
		})
	}
}

// fault begins (0) or ends (1) a fault of the upstream.
func (s *Sim) fault(_ int, ends uint32) {
	if ends == 0 {
		s.downs++
		s.centre = nil
		return
	}
	if s.downs--; s.downs == 0 {
		s.centre = s.policy.centre(s.now)
	}
}

// leafFault begins or ends a fault of a leaf.
func (s *Sim) leafFault(i int, gen uint32) {
	f, ends, l := &s.sc.Faults[gen>>1], gen&1 == 1, &s.leaves[i]
	switch {
	case f.Kind == Partition && ends:
		l.cuts--
	case f.Kind == Partition:
		l.cuts++
	case ends:
		if l.downs--; l.downs == 0 {
			s.start(i)
		}
	default:
		if l.downs++; l.node != nil {
			s.stop(i, f.Graceful)
		}
	}
}
