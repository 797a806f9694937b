package config

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// watched is a Watch over a file in a directory of its own, and what it has told.
type watched struct {
	t    *testing.T
	path string
	now  chan os.Signal
	told chan string
}

func watch(t *testing.T, path, known string) *watched {
	t.Helper()
	w := &watched{t: t, path: path, now: make(chan os.Signal), told: make(chan string, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Watch{Path: path, Every: 20 * time.Millisecond, Now: w.now, Changed: func(data []byte, err error) {
			if err != nil {
				data = []byte("error: " + err.Error())
			}
			w.told <- string(data)
		}}.Run(ctx, []byte(known))
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return w
}

// want waits for what is told next.
func (w *watched) want(prefix string) {
	w.t.Helper()
	select {
	case got := <-w.told:
		if !strings.HasPrefix(got, prefix) || prefix == "" && got != "" {
			w.t.Errorf("told %.100q, want %q", got, prefix)
		}
	case <-time.After(20 * time.Second):
		w.t.Fatalf("not told: %q", prefix)
	}
}

// quiet lets many looks pass, and nothing may be told.
func (w *watched) quiet() {
	w.t.Helper()
	select {
	case got := <-w.told:
		w.t.Errorf("told %.100q, want nothing", got)
	case <-time.After(200 * time.Millisecond):
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put replaces the file as a whole.
func (w *watched) put(content string) {
	w.t.Helper()
	write(w.t, w.path+".new", content)
	must(w.t, os.Rename(w.path+".new", w.path))
}

// point makes the file a link to something else, at once.
func (w *watched) point(target string) {
	w.t.Helper()
	must(w.t, os.Symlink(target, w.path+".new"))
	must(w.t, os.Rename(w.path+".new", w.path))
}

func TestWatch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "verdict.yaml")
	write(t, path, "one")
	w := watch(t, path, "one")
	w.quiet()
	w.put("two")
	w.want("two")
	w.put("two")
	w.quiet()

	// Of the same length, at the same time, as far as the file system tells.
	info, err := os.Stat(path)
	must(t, err)
	write(t, path+".new", "TWO")
	must(t, os.Chtimes(path+".new", info.ModTime(), info.ModTime()))
	must(t, os.Rename(path+".new", path))
	w.want("TWO")

	must(t, os.Remove(path))
	w.want("error: open ")
	w.quiet()
	w.put("four")
	w.want("four")
	must(t, os.Truncate(path, 0))
	w.want("")
	w.put(strings.Repeat("x", 3*MaxFileBytes))
	w.want("xxx")
}

// A directory, and a pipe that nobody writes, for which a reader that opens it blindly waits for ever.
func TestWatchOddFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "verdict.yaml")
	write(t, path, "one")
	w := watch(t, path, "one")
	w.point(dir)
	w.want("error: " + path + " is not a regular file")
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	w.point("pipe")
	w.quiet()
	w.put("two")
	w.want("two")
	w.point("verdict.yaml") // to itself
	w.want("error: open ")
	w.put("two")
	w.want("two")
}

// A file that is being written is not believed: what a look shows has to show in the next one too.
func TestSights(t *testing.T) {
	gone := sight{err: os.ErrNotExist}
	const asked = true
	seen := sights{last: sight{data: []byte("a")}, told: sight{data: []byte("a")}}
	for i, step := range []struct {
		sight
		asked, told bool
	}{
		{sight{data: []byte("a")}, false, false},
		{sight{}, false, false}, // truncated
		{sight{data: []byte("b")}, false, false},
		{sight{data: []byte("bb")}, false, false},
		{sight{data: []byte("bb")}, false, true},
		{sight{data: []byte("bb")}, false, false},
		{gone, false, false}, // for a moment
		{sight{data: []byte("bb")}, false, false},
		{sight{data: []byte("c")}, false, false}, // and back again
		{sight{data: []byte("bb")}, false, false},
		{sight{data: []byte("bb")}, false, false},
		{gone, false, false},
		{sight{err: os.ErrPermission}, false, false},
		{gone, false, false},
		{gone, false, true},
		{gone, false, false},
		{gone, asked, true},
		{sight{data: []byte("d")}, asked, true},
		{sight{data: []byte("d")}, false, false},
		{sight{data: []byte("d")}, asked, true},
		{sight{}, false, false},
		{sight{}, false, true}, // for good
	} {
		if told := seen.see(step.sight, step.asked); told != step.told {
			t.Errorf("step %d, %q %v: told %v", i, step.data, step.err, told)
		}
	}
}

// A Kubernetes ConfigMap mount: the file is a link into ..data, a link that is replaced as a whole.
func TestWatchConfigMap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mount := func(version, content string) {
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "verdict.yaml"), content)
		must(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	mount("..1", "one")
	path := filepath.Join(dir, "verdict.yaml")
	must(t, os.Symlink(filepath.Join("..data", "verdict.yaml"), path))
	w := watch(t, path, "one")
	w.quiet()
	mount("..2", "two")
	must(t, os.RemoveAll(filepath.Join(dir, "..1")))
	w.want("two")
	mount("..3", "three")
	w.want("three")
	w.quiet()
}

// Whoever asks is told at once, whatever there is.
func TestWatchNow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "verdict.yaml")
	write(t, path, "one")
	w := watch(t, path, "one")
	for range 2 {
		w.now <- syscall.SIGHUP
		w.want("one")
	}
	must(t, os.Remove(path))
	w.now <- syscall.SIGHUP
	w.want("error: open ")
	w.quiet()
}

// A pipe was read once, at the start, and is gone.
func TestWatchPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(path, 0o600))
	w := watch(t, path, "one")
	w.quiet()
	w.now <- syscall.SIGHUP
	w.want("error: " + path + " is not a regular file")
}
