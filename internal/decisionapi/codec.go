package decisionapi

import (
	"runtime"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers what laterCodec wraps
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// Codec is the option with which a server of this package's services is made. grpc-go ends a call whose
// bytes are no message with INTERNAL, before any handler or interceptor could say that the mistake is the
// client's (seen with v1.85). With this codec such a message reaches Register's wrapper, and no further.
func Codec() grpc.ServerOption { return grpc.ForceServerCodecV2(codec) }

// Workers is the option with which calls find goroutines whose stacks have grown already: a goroutine for
// each call copies its stack twice on the way to an answer (5 % of a call's processor time).
func Workers() grpc.ServerOption { return grpc.NumStreamWorkers(workers) }

// workers are enough for as many calls as there are processors; a call that finds none gets a goroutine.
var workers = uint32(4 * runtime.GOMAXPROCS(0))

var codec = &laterCodec{CodecV2: encoding.GetCodecV2("proto")}

// laterCodec keeps the failures of this API's messages until they are asked for.
type laterCodec struct {
	encoding.CodecV2
	failures sync.Map     // message -> error
	kept     atomic.Int64 // how many there are: nearly always none, and then nothing need be looked up
}

func (c *laterCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if request, ok := v.(*retryv1.DecideRequest); ok {
		request.Reset()
		if decodePlain(data, request) {
			return nil
		}
	}
	err := c.CodecV2.Unmarshal(data, v)
	if m, ok := v.(proto.Message); ok && err != nil && m.ProtoReflect().Descriptor().ParentFile().Package() == "retry.v1" {
		c.failures.Store(v, err)
		c.kept.Add(1)
		return nil
	}
	return err
}

// failure returns err or, where there is none, what was wrong with the message.
func (c *laterCodec) failure(v any, err error) error {
	if err != nil {
		return err
	}
	if c.kept.Load() == 0 {
		return nil
	}
	if failed, ok := c.failures.LoadAndDelete(v); ok {
		c.kept.Add(-1)
		return malformed("", failed.(error).Error())
	}
	return nil
}
