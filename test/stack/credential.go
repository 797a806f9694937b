package stack

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// credentialFile is envoy/credential.yaml.
type credentialFile struct {
	Clients     []addition `yaml:"clients"`
	Filters     []addition `yaml:"filters"`
	On          routePart  `yaml:"on"`
	FromVerdict []addition `yaml:"first_attempts_from_verdict"`
	FromEnvoy   []addition `yaml:"first_attempts_from_envoy"`
	OnInjector  routePart  `yaml:"on_with_injector"`
}

// routePart is what a virtual host, or a route, has besides.
type routePart struct {
	Remove    []any          `yaml:"request_headers_to_remove"`
	PerFilter map[string]any `yaml:"typed_per_filter_config"`
}

func (p routePart) apply(c *Config, at string) error {
	for _, header := range p.Remove {
		if err := c.splice(at+"/request_headers_to_remove", -1, header); err != nil {
			return err
		}
	}
	return c.put(at+"/typed_per_filter_config", p.PerFilter)
}

// addition is one place of hop.yaml and what is put there.
type addition struct {
	At     string `yaml:"at"`
	Append any    `yaml:"append"`
	Insert any    `yaml:"insert"`
	Set    any    `yaml:"set"`
}

// FirstAttempts says where first attempts get their credential from.
type FirstAttempts uint8

const (
	// FirstFromNowhere: they have none.
	FirstFromNowhere FirstAttempts = iota
	// FirstFromVerdict: from the credential filter too.
	FirstFromVerdict
	// FirstFromEnvoy: from Envoy's credential injector.
	FirstFromEnvoy
)

// Credential makes the additions of envoy/credential.yaml, and turns them on for the inner virtual hosts.
func Credential(first FirstAttempts, virtualHosts ...string) Patch {
	return Patch{"credential", func(c *Config) error {
		file, err := readCredentialFile()
		if err != nil {
			return err
		}
		parts, on := [][]addition{file.Clients, file.Filters}, file.On
		switch first {
		case FirstFromVerdict:
			parts = append(parts, file.FromVerdict)
		case FirstFromEnvoy:
			parts = append(parts, file.FromEnvoy)
			maps.Copy(on.PerFilter, file.OnInjector.PerFilter)
		}
		for _, part := range parts {
			for _, a := range part {
				if err := a.apply(c); err != nil {
					return err
				}
			}
		}
		for _, host := range virtualHosts {
			if err := on.apply(c, VirtualHost("attempts", host)); err != nil {
				return err
			}
		}
		return nil
	}}
}

// CredentialFile returns the path of envoy/credential.yaml.
func CredentialFile() (string, error) {
	root, err := Root()
	return filepath.Join(root, "envoy", "credential.yaml"), err
}

func readCredentialFile() (*credentialFile, error) {
	path, err := CredentialFile()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file := new(credentialFile)
	if err := yaml.Unmarshal(text, file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

func (a addition) apply(c *Config) error {
	switch {
	case a.Append != nil:
		return c.splice(a.At, -1, a.Append)
	case a.Insert != nil:
		element, err := yaml.Marshal(a.Insert)
		if err != nil {
			return err
		}
		return Insert(a.At, string(element))(c)
	case a.Set != nil:
		return c.put(a.At, a.Set)
	}
	return errors.New(a.At + ": neither append, insert nor set")
}
