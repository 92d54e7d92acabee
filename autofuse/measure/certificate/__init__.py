"""Certificates: what is known of one kernel, how it is known, and what is not."""

from autofuse.measure.certificate.certify import certify
from autofuse.measure.certificate.schema import SCHEMA, certificate_schema

__all__ = ["SCHEMA", "certificate_schema", "certify"]
