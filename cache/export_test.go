package cache

// SweepNow is a sweep, for benchmarks.
func (c *Cache[K, V]) SweepNow() { c.sweep() }
