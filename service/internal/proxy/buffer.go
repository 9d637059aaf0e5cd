package proxy

import "sync"

// A buffer is for copying bodies.
type buffer [32 << 10]byte

// buffers reuses buffers.
var buffers = sync.Pool{New: func() any { return new(buffer) }}

// bufferPool is buffers for httputil.ReverseProxy.
type bufferPool struct{}

func (bufferPool) Get() []byte  { return buffers.Get().(*buffer)[:] }
func (bufferPool) Put(b []byte) { buffers.Put((*buffer)(b)) }
