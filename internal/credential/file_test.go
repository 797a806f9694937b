package credential

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func tokenFile(path string) string {
	return `upstreams: [{clusters: [app], credential: {token_file: {path: "` + path + `"}}}]`
}

func TestTokenFileContents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, content, want, text string }{
		{"plain", "abc", "Bearer abc", ""},
		{"a line feed", "abc\n", "Bearer abc", ""},
		{"CR LF", "abc\r\n", "Bearer abc", ""},
		{"the longest", strings.Repeat("x", maxToken) + "\r\n", "Bearer " + strings.Repeat("x", maxToken), ""},
		{"too long", strings.Repeat("x", maxToken+1), "", "more than 16384 bytes"},
		{"huge", strings.Repeat("x", 1<<20), "", "more than 16386 bytes"},
		{"empty", "", "", "is empty"},
		{"a line feed alone", "\n", "", "is empty"},
		{"two lines", "abc\r\ndef\n", "", "does not belong in a header"},
		{"two line feeds", "abc\n\n", "", "does not belong in a header"},
		{"a blank", "Bearer abc", "", "does not belong in a header"},
		{"NUL", "abc\x00", "", "does not belong in a header"},
	} {
		path := write(t, test.content)
		got, err := start(t, tokenFile(path)).Source("app").Current(t.Context())
		if test.text == "" {
			if err != nil || got != test.want {
				t.Errorf("%s: %.20q, %v", test.name, got, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v, want %q", test.name, err, test.text)
		}
	}
}

// What is not a regular file is refused, and not waited for.
func TestTokenFileIsNoFile(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		fifo:                               "is not a regular file",
		t.TempDir():                        "is not a regular file",
		"/dev/zero":                        "is not a regular file",
		filepath.Join(t.TempDir(), "none"): "no such file",
	} {
		_, err := start(t, tokenFile(path)).Source("app").Current(t.Context())
		if resultOf(err) != resultFile || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", path, err, text)
		}
	}
}

// A projected Kubernetes token: the file is a link to ..data/token, ..data is a link to a directory, and
// that link is swapped.
func TestProjectedToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	project := func(version, content string) {
		t.Helper()
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(os.Mkdir(filepath.Join(dir, version), 0o700))
		must(os.WriteFile(filepath.Join(dir, version, "token"), []byte(content), 0o600))
		must(os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		must(os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	project("..1", "first")
	path := filepath.Join(dir, "token")
	if err := os.Symlink("..data/token", path); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := start(t, tokenFile(path)).Source("app")
		first := current(t, s)
		if err := refresh(t, s, first); !errors.Is(err, ErrSameToken) {
			t.Errorf("nothing new: %v", err)
		}
		project("..2", "second\n")
		// Nobody rejects anything: a use after ten seconds has it read again.
		time.Sleep(fileRenewal)
		current(t, s)
		synctest.Wait()
		if got := current(t, s); got != "Bearer second" || s.Recognize(got) != Latest || s.Recognize(first) != Earlier {
			t.Errorf("%q", got)
		}
		project("..3", "third")
		if err := refresh(t, s, "Bearer second"); err != nil || current(t, s) != "Bearer third" {
			t.Errorf("a rejection has it read at once: %v", err)
		}
	})
}

// A file that is gone: what was read counts for a minute, then attempts fail closed; a new file is found.
func TestTokenFileRemoved(t *testing.T) {
	t.Parallel()
	path := write(t, "abc")
	synctest.Test(t, func(t *testing.T) {
		f := start(t, tokenFile(path))
		s := f.Source("app")
		read := time.Now()
		current(t, s)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for time.Since(read) < fileLifetime {
			current(t, s)
			time.Sleep(time.Second)
		}
		_, err := s.Current(t.Context())
		if !strings.Contains(err.Error(), "no such file") || strings.Contains(err.Error(), "abc") {
			t.Errorf("%v", err)
		}
		if errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an error of another package: %v", err)
		}
		synctest.Wait()
		if n := strings.Count(f.log.String(), "\n"); n != 1 {
			t.Errorf("%d lines, want one:\n%s", n, f.log)
		}
		writeTo(t, path, "def")
		time.Sleep(longestPause)
		if got := current(t, s); got != "Bearer def" {
			t.Errorf("%q", got)
		}
	})
}

// Envoy may send what stands in the file before this process has seen it there.
func TestTokenFileIsReadToRecognize(t *testing.T) {
	t.Parallel()
	path := write(t, "first")
	synctest.Test(t, func(t *testing.T) {
		s := start(t, tokenFile(path)).Source("app")
		current(t, s)
		time.Sleep(time.Hour) // nobody asks
		writeTo(t, path, "second")
		if s.Recognize("Bearer second") != Latest || s.Recognize("Bearer first") != Earlier {
			t.Error("what stands in the file is not recognized")
		}
		// A crowd of unknown tokens reads the file no more than once a second.
		writeTo(t, path, "third")
		if s.Recognize("Bearer third") != NotOurs {
			t.Error("read again within a second")
		}
		time.Sleep(rereadInterval)
		if s.Recognize("Bearer x") != NotOurs || s.Recognize("Bearer third") != Latest {
			t.Error("not read again after a second")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rereadInterval)
		if s.Recognize("Bearer x") != NotOurs || s.Recognize("Bearer third") != Latest {
			t.Error("a file that is gone changes what is known")
		}
	})
}
