package sim

// A slot holds a pooled value. Its generation increases when the scheduled events of the
// value become stale.
type slot struct {
	index int32
	gen   uint32
}

func (s *slot) place() *slot { return s }

// A pool hands out values with stable addresses, and takes them back.
type pool[T any, P interface {
	*T
	place() *slot
}] struct {
	all  []P
	free []P
}

// get returns a value as it was put back.
func (p *pool[T, P]) get() P {
	if len(p.free) == 0 {
		block := make([]T, 64)
		for i := range block {
			v := P(&block[i])
			v.place().index = int32(len(p.all))
			p.all = append(p.all, v)
			p.free = append(p.free, v)
		}
	}
	last := len(p.free) - 1
	v := p.free[last]
	p.free = p.free[:last]
	return v
}

func (p *pool[T, P]) put(v P) {
	v.place().gen++
	p.free = append(p.free, v)
}

// at returns the value of an event, or nil if the event is stale.
func (p *pool[T, P]) at(index int32, gen uint32) P {
	if v := p.all[index]; v.place().gen == gen {
		return v
	}
	return nil
}

// inUse returns the number of values handed out.
func (p *pool[T, P]) inUse() int { return len(p.all) - len(p.free) }
