package config

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// Watch notices that a file's content has changed, by reading it every so often.
//
// Events of the file system (inotify) would come sooner, and not at all where another machine writes (NFS)
// or a bind mount is looked through; a file that is reached through symbolic links that are swapped, as in a
// Kubernetes ConfigMap mount, would need a watch of every directory on the way. A file of this kind is
// small: to read it is simpler than all that, and cannot miss the last change.
type Watch struct {
	// Path is the file's.
	Path string
	// Every is the time between two looks. What has changed is told once two looks in a row have shown the
	// same: a file that is being written, or is gone for a moment, is not believed. One that is written in
	// parts further apart is: whoever writes slowly should write another file and rename it.
	Every time.Duration
	// Now asks for a look at once, of which is told whatever it shows.
	Now <-chan os.Signal
	// Changed is told the content, or why it cannot be had; never both, and never concurrently. Only as
	// much of a file that is too large comes as shows that it is.
	Changed func(data []byte, err error)
}

// sight is what a look at the file has shown.
type sight struct {
	data []byte
	err  error
}

// sights is the last look, and the last one that was told.
type sights struct{ last, told sight }

// see takes a look and says whether it is to be told: where it was asked for, and where it shows something
// new for the second time in a row.
func (s *sights) see(seen sight, asked bool) bool {
	again := seen.like(s.last)
	s.last = seen
	if !asked && (!again || seen.like(s.told)) {
		return false
	}
	s.told = seen
	return true
}

func (s sight) like(other sight) bool {
	if s.err != nil || other.err != nil {
		return s.err != nil && other.err != nil && s.err.Error() == other.err.Error()
	}
	return bytes.Equal(s.data, other.data)
}

// Run watches until ctx ends; known is the content that needs not be told. A Path that is a pipe or a
// device to begin with has given its content, and is looked at only when Now asks.
func (w Watch) Run(ctx context.Context, known []byte) {
	seen := sights{last: sight{data: known}, told: sight{data: known}}
	var looks <-chan time.Time
	if info, err := os.Stat(w.Path); err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeDevice) == 0 {
		ticker := time.NewTicker(w.Every)
		defer ticker.Stop()
		looks = ticker.C
	}
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-w.Now:
			asked = true
		case <-looks:
		}
		if now := look(w.Path); seen.see(now, asked) {
			w.Changed(now.data, now.err)
		}
	}
}

// look reads a regular file, and does not wait for anybody who might write a pipe.
func look(path string) sight {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return sight{err: err}
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return sight{err: err}
	} else if !info.Mode().IsRegular() {
		return sight{err: fmt.Errorf("%s is not a regular file", path)}
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return sight{err: err}
	}
	return sight{data: data}
}
