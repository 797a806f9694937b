package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// maxIDs bounds how many ids are remembered; beyond it the oldest is forgotten, its scripts begin anew.
const maxIDs = 100_000

// Hit is one attempt that the upstream has seen: a request whose header section was parsed.
type Hit struct {
	// ID is the request's x-test-id, or, if it plays a fault, its x-request-id.
	ID string `json:"id"`
	// Attempt counts the hits of this ID, from 1.
	Attempt int `json:"attempt"`
	// Fault is the entry of the script that was played; "" for a script that could not be read.
	Fault string `json:"fault"`

	Method string `json:"method"`
	// Path is the request target as it arrived, with its query.
	Path    string      `json:"path"`
	Host    string      `json:"host"`
	Header  http.Header `json:"header"`
	Trailer http.Header `json:"trailer,omitempty"`

	// BodyBytes and BodySHA256 (hexadecimal) describe what has arrived so far, complete or not.
	BodyBytes  int64  `json:"body_bytes"`
	BodySHA256 string `json:"body_sha256"`
	// Complete: the whole request was read, and its length is the announced one.
	Complete bool `json:"complete"`
	// Executed: the side effect took place; see Server.Effects.
	Executed bool `json:"executed"`

	// Listener is the name of the listener, as in Addrs' JSON.
	Listener string `json:"listener"`
	Proto    string `json:"proto"`
	// Conn numbers the connections of a Server, from 1. Stream is HTTP/2's stream id.
	Conn   int64  `json:"conn"`
	Stream uint32 `json:"stream,omitempty"`
	// At is the monotonic time between the start of the Server and this hit.
	At time.Duration `json:"at_ns"`
}

// Stats are totals over all requests, those that were not recorded included.
type Stats struct {
	// Connections accepted by all listeners.
	Connections int64 `json:"connections"`
	// Requests whose header section was parsed.
	Requests int64 `json:"requests"`
	// Raced counts requests that a keepalive-race threw away unread.
	Raced int64 `json:"raced"`
}

type recorder struct {
	start                        time.Time
	maxIDs                       int
	connections, requests, raced atomic.Int64

	mu      sync.Mutex
	byID    map[string][]*record
	order   []string      // ids, oldest first
	changed chan struct{} // closed at the next change; nil while nobody waits
}

func newRecorder() *recorder {
	return &recorder{start: time.Now(), maxIDs: maxIDs, byID: make(map[string][]*record)}
}

// record is a Hit while it is being written.
type record struct {
	r   *recorder
	mu  sync.Mutex
	hit Hit
	sum hash.Hash
}

// add records hit and gives it its number. A hit without an id is numbered 1 and forgotten.
func (r *recorder) add(hit Hit) *record {
	hit.At = time.Since(r.start)
	hit.Attempt = 1
	rec := &record{r: r, hit: hit, sum: sha256.New()}
	if hit.ID == "" {
		return rec
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	earlier, known := r.byID[hit.ID]
	if !known {
		if len(r.order) >= r.maxIDs {
			delete(r.byID, r.order[0])
			r.order = r.order[1:]
		}
		r.order = append(r.order, hit.ID)
	}
	rec.hit.Attempt = len(earlier) + 1
	r.byID[hit.ID] = append(earlier, rec)
	r.wake()
	return rec
}

func (r *recorder) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

func (rec *record) update(f func(*Hit)) {
	rec.mu.Lock()
	f(&rec.hit)
	rec.mu.Unlock()
	rec.r.mu.Lock()
	rec.r.wake()
	rec.r.mu.Unlock()
}

// write takes a piece of the body.
func (rec *record) write(p []byte) {
	rec.update(func(h *Hit) {
		rec.sum.Write(p)
		h.BodyBytes += int64(len(p))
	})
}

func (rec *record) complete(trailer http.Header) {
	rec.update(func(h *Hit) {
		h.Complete = true
		h.Trailer = trailer
	})
}

func (rec *record) played(fault string) { rec.update(func(h *Hit) { h.Fault = fault }) }
func (rec *record) execute()            { rec.update(func(h *Hit) { h.Executed = true }) }

func (rec *record) snapshot() Hit {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	hit := rec.hit
	hit.BodySHA256 = hex.EncodeToString(rec.sum.Sum(nil))
	return hit
}

func (r *recorder) hits(id string) []Hit {
	r.mu.Lock()
	records := r.byID[id]
	r.mu.Unlock()
	hits := make([]Hit, len(records))
	for i, rec := range records {
		hits[i] = rec.snapshot()
	}
	return hits
}

// wait returns the hits of id as soon as ok accepts them.
func (r *recorder) wait(ctx context.Context, id string, ok func([]Hit) bool) ([]Hit, error) {
	for {
		r.mu.Lock()
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		r.mu.Unlock()
		hits := r.hits(id)
		if ok(hits) {
			return hits, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return hits, fmt.Errorf("waiting for hits of %q, %d so far: %w", id, len(hits), ctx.Err())
		}
	}
}

func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.byID)
	r.order = nil
	r.wake()
}

// Hits are the hits of id, oldest first, as far as they have arrived. The headers are shared: do not
// change them.
func (s *Server) Hits(id string) []Hit { return s.rec.hits(id) }

// Effects counts the side effects of id: the requests that arrived completely and were executed.
// Every fault that is played after the whole request was read counts, except the statuses that say
// otherwise (401, 408, 421, 425, 429); what is refused, cut off or answered early does not. The
// options "executed" and "refused" override it.
func (s *Server) Effects(id string) int {
	n := 0
	for _, hit := range s.rec.hits(id) {
		if hit.Executed {
			n++
		}
	}
	return n
}

// WaitHits waits until id has at least n hits. The bodies of the last may still be arriving.
func (s *Server) WaitHits(ctx context.Context, id string, n int) ([]Hit, error) {
	return s.rec.wait(ctx, id, func(hits []Hit) bool { return len(hits) >= n })
}

// WaitUntil waits until ok accepts the hits of id; it is asked again at every change of any hit.
func (s *Server) WaitUntil(ctx context.Context, id string, ok func([]Hit) bool) ([]Hit, error) {
	return s.rec.wait(ctx, id, ok)
}

// Reset forgets all hits; requests under way are no longer recorded. Stats go on.
func (s *Server) Reset() { s.rec.reset() }

// Stats are the totals since the start.
func (s *Server) Stats() Stats {
	return Stats{Connections: s.rec.connections.Load(), Requests: s.rec.requests.Load(), Raced: s.rec.raced.Load()}
}
