package forward

import "sync"

// A buffer is for copying bodies.
type buffer [32 << 10]byte

// buffers reuses buffers.
var buffers = sync.Pool{New: func() any { return new(buffer) }}

// largeBuffers reuses buffers for bodies that may be longer than a buffer, other than event streams:
// twice as much at a time takes a fifth less processor time.
var largeBuffers = sync.Pool{New: func() any { return new(largeBuffer) }}

type largeBuffer [2 * len(buffer{})]byte
